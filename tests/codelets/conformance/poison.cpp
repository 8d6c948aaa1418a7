// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/poison.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "codelets/init/init.hpp"
#include "codelets/operation.hpp"

namespace dos::test {
namespace {

using namespace codelets;

struct PoisonScratch : Operation {
  static constexpr Symbol kSymbol{"test_poison", 1};
  struct Args {
    std::uint32_t word;
  };
  template <class As>
  struct Buffers {
    WorkSpace<As, float> scratch;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& /*args*/) { return {}; }
  template <simd::Isa>
  static void cpu(const auto& task) {
    const auto bytes = std::as_writable_bytes(task.scratch);
    fill_words(bytes.data(), std::ssize(bytes), task.args.word);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return fill_cuda(context, DType::kF32, std::ssize(task.scratch),
                     std::bit_cast<float>(task.args.word), task.scratch.data());
  }
};

/// What tasks on a CUDA worker find in its workspace.
struct PoisonWorkspace : Operation {
  static constexpr Symbol kSymbol{"test_poison_workspace", 1};
  using Args = PoisonScratch::Args;
  template <class As>
  struct Buffers {};

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& /*args*/) { return {}; }
  template <simd::Isa>
  static void cpu(const auto& /*task*/) {}
  static auto cuda(const CudaContext& context, const auto& task) {
    return fill_cuda(context, DType::kF32, context.workspace_bytes / 4,
                     std::bit_cast<float>(task.args.word), context.workspace);
  }
};

}  // namespace

void fill_words(std::byte* memory, Index bytes, std::uint32_t word) {
  for (Index i = 0; i < bytes; i += 4)
    std::memcpy(memory + i, &word, static_cast<std::size_t>(std::min<Index>(4, bytes - i)));
}

void poison_scratch(rt::Submitter& submitter, const rt::Handle& scratch, std::uint32_t word) {
  submit<PoisonScratch>(submitter, {.scratch = scratch}, {word}, {});
}

void poison_workspace(rt::Submitter& submitter, std::uint32_t word) {
  if (submitter.session().cuda_workers() == 0) return;
  submit<PoisonWorkspace>(submitter, {}, {word}, {});
  submitter.session().wait_all();
}

}  // namespace dos::test

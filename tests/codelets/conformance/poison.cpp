// SPDX-License-Identifier: Apache-2.0
#include "codelets/conformance/poison.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "codelets/cuda/tasks.hpp"
#include "codelets/init/init_cuda.hpp"

namespace dos::test {
namespace {

/// Unused where there are no devices.
[[maybe_unused]] float number_of(const rt::TaskView& task) {
  return std::bit_cast<float>(task.args<std::uint32_t>());
}

void scratch_task(const rt::TaskView& task) {
  fill_words(task.pointer<std::byte>(0), task.count(0) * 4, task.args<std::uint32_t>());
}

void scratch_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  codelets::start_on_cuda(stream, [&](const auto& context) {
    return codelets::fill_cuda(context, DType::kF32, task.count(0), number_of(task),
                               task.pointer<float>(0));
  });
}

void no_workspace_task(const rt::TaskView& /*task*/) {}

void workspace_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  codelets::start_on_cuda(stream, [&](const auto& context) {
    return codelets::fill_cuda(context, DType::kF32, context.workspace_bytes / 4, number_of(task),
                               context.workspace);
  });
}

const rt::Codelet& scratch_codelet() {
  static const rt::Codelet codelet =
      rt::make_codelet<scratch_task, nullptr, codelets::kOnCuda<scratch_cuda_task>>(
          {.symbol = "dos.test_poison.v1", .modes = {rt::Mode::kScratch}, .tail = {}});
  return codelet;
}

const rt::Codelet& workspace_codelet() {
  static const rt::Codelet codelet =
      rt::make_codelet<no_workspace_task, nullptr, codelets::kOnCuda<workspace_cuda_task>>(
          {.symbol = "dos.test_poison_workspace.v1", .modes = {}, .tail = {}});
  return codelet;
}

}  // namespace

void fill_words(std::byte* memory, Index bytes, std::uint32_t word) {
  for (Index i = 0; i < bytes; i += 4)
    std::memcpy(memory + i, &word, static_cast<std::size_t>(std::min<Index>(4, bytes - i)));
}

void poison_scratch(rt::Submitter& submitter, const rt::Handle& scratch, std::uint32_t word) {
  const std::array<const rt::Handle*, 1> buffers{&scratch};
  submitter.submit(scratch_codelet(), buffers, word, {}, {});
}

void poison_workspace(rt::Submitter& submitter, std::uint32_t word) {
  if (submitter.session().cuda_workers() == 0) return;
  submitter.submit(workspace_codelet(), std::span<const rt::Handle* const>{}, word, {}, {});
  submitter.session().wait_all();
}

}  // namespace dos::test

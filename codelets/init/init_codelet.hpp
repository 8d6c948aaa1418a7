// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/init/init.hpp"
#include "codelets/operation.hpp"

namespace dos::codelets {

/// Elements offset .. offset + count - 1 of a buffer.
struct HandleRange {
  Index offset;
  Index count;
};

/// out[range] = value; the other elements stay.
struct Fill : Operation {
  static constexpr Symbol kSymbol{"fill", 1};
  struct Args {
    HandleRange range;
    float value;
  };
  template <class As>
  struct Buffers {
    Updates<As, float> out;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& args) {
    return work_of(1, args.range.count);
  }
  template <simd::Isa>
  static void cpu(const auto& task) {
    fill_cpu(task.args.range.count, task.args.value, task.out.data() + task.args.range.offset);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return fill_cuda(context, type_of(task.out), task.args.range.count, task.args.value,
                     task.out.data() + task.args.range.offset);
  }
};

/// out[range] = random numbers by counter (init.hpp); the other elements stay.
struct InitRandom : Operation {
  static constexpr Symbol kSymbol{"init_random", 1};
  struct Args {
    HandleRange range;
    RandomInit init;
  };
  template <class As>
  struct Buffers {
    Updates<As, float> out;
  };

  // Ten rounds of about 14 operations for two numbers, then logarithm, root and cosine.
  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& args) {
    return work_of(100, args.range.count);
  }
  template <simd::Isa>
  static void cpu(const auto& task) {
    init_random_cpu(task.args.init, task.args.range.count,
                    task.out.data() + task.args.range.offset);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return init_random_cuda(context, type_of(task.out), task.args.init, task.args.range.count,
                            task.out.data() + task.args.range.offset);
  }
};

/// out = x rounded to nearest even: the working parameters of a subgroup.
struct Round : Operation {
  static constexpr Symbol kSymbol{"round", 1, DType::kBF16};
  template <class As>
  struct Buffers {
    Reads<As, float> x;
    Writes<As, BF16> out;
  };

  static void check(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    require(b.x.count() == b.out.count(), "as many BF16 elements as FP32 ones");
  }
  static rt::Work work(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    return work_of(1, b.x.count());
  }
  template <simd::Isa>
  static void cpu(const auto& task) {
    round_cpu(std::ssize(task.x), task.x.data(), task.out.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return round_cuda(context, std::ssize(task.x), task.x.data(), task.out.data());
  }
};

}  // namespace dos::codelets

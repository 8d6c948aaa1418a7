// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/operation.hpp"
#include "codelets/reduce/reduce.hpp"

namespace dos::codelets {

/// sum[0] = sum of x[i]^2.
struct SumOfSquares : Operation {
  static constexpr Symbol kSymbol{"sum_of_squares", 1};
  using Variants = ByActivation;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    Writes<As, double> sum;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    return work_of(2, b.x.count());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    task.sum.front() = sum_of_squares_cpu<kIsa>(std::ssize(task.x), task.x.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return sum_of_squares_cuda(context, type_of(task.x), std::ssize(task.x), task.x.data(),
                               task.sum.data());
  }
};

/// norm[0] = square root of the sums' total; factor[0] = clip factor of this step. The value that
/// factor holds before is the previous step's: NaN stays NaN (reduce.hpp).
struct CombineNorm : Operation {
  static constexpr Symbol kSymbol{"combine_norm", 1, DType::kF64};
  struct Args {
    float max_norm;
  };
  template <class As>
  struct Buffers {
    Updates<As, float> factor;
    Writes<As, double> norm;
    ReadsEach<As, double> sums;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    return work_of(1, b.sums.count());
  }
  template <simd::Isa>
  static void cpu(const auto& task) {
    std::vector<double> sums;
    for (const double* sum : task.sums) sums.push_back(*sum);
    const ClipResult result = combine_norm(sums, task.args.max_norm, task.factor.front());
    task.factor.front() = result.factor;
    task.norm.front() = result.norm;
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return combine_norm_cuda(context, task.sums, task.args.max_norm, task.factor.data(),
                             task.norm.data());
  }
};

/// told[0] = factor[0], in host memory: for who decides there what is to run (rt::Condition). What
/// reads the factor behind it finds it told, although the factor stays what it is.
struct TellFactor : Operation {
  static constexpr Symbol kSymbol{"tell_factor", 1};
  template <class As>
  struct Buffers {
    Updates<As, float> factor;
    Writes<As, float> told;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& /*args*/) {
    return work_of(0, 1);
  }
  template <simd::Isa>
  static void cpu(const auto& task) {
    task.told.front() = task.factor.front();
  }
};

}  // namespace dos::codelets

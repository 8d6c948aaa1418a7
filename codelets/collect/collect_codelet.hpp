// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/collect/collect.hpp"
#include "codelets/operation.hpp"

/// What ranks have sent, put together. Messages arrive in host memory, so these run on CPU workers.
namespace dos::codelets {

/// sum (FP32) = x if kFirst, else sum + x: the first elements of x, FP32 or BF16, as many as sum
/// has.
template <bool kFirst>
struct CollectGradient : Operation {
  static constexpr Symbol kSymbol{kFirst ? "take_gradient" : "add_gradient", 1};
  using Variants = ByActivation;
  template <class As>
  struct Buffers {
    Sums<As, !kFirst, float> sum;
    Reads<As, Activation> x;
  };

  static void check(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    require(b.x.count() >= b.sum.count(), "as many elements as the sum");
  }
  static rt::Work work(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    return work_of(1, b.sum.count());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    add_gradient_cpu<kIsa>(std::ssize(task.sum), kFirst, task.x.data(), task.sum.data());
  }
};
using TakeGradient = CollectGradient<true>;
using AddGradient = CollectGradient<false>;

/// packed[i] = scalars[i][0], all FP64.
struct Pack : Operation {
  static constexpr Symbol kSymbol{"pack", 1, DType::kF64};
  template <class As>
  struct Buffers {
    Writes<As, double> packed;
    ReadsEach<As, double> scalars;
  };

  static void check(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    require(b.packed.count() == b.scalars.count(), "one element a scalar");
  }
  static rt::Work work(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    return work_of(1, b.packed.count());
  }
  template <simd::Isa>
  static void cpu(const auto& task) {
    std::ranges::transform(task.scalars, task.packed.begin(),
                           [](const double* each) { return *each; });
  }
};

/// scalars[i][0] = packed[i], all FP64.
struct Unpack : Operation {
  static constexpr Symbol kSymbol{"unpack", 1, DType::kF64};
  template <class As>
  struct Buffers {
    Reads<As, double> packed;
    WritesEach<As, double> scalars;
  };

  static void check(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    require(b.packed.count() == b.scalars.count(), "one element a scalar");
  }
  static rt::Work work(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    return work_of(1, b.packed.count());
  }
  template <simd::Isa>
  static void cpu(const auto& task) {
    for (std::size_t i = 0; i < task.scalars.size(); ++i) *task.scalars[i] = task.packed[i];
  }
};

}  // namespace dos::codelets

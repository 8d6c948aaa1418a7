// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/gelu/gelu.hpp"
#include "codelets/operation.hpp"

namespace dos::codelets {

/// y = gelu(x), over buffers of one size.
struct GeluForward : Operation {
  static constexpr Symbol kSymbol{"gelu_forward", 1};
  using Variants = ByActivation;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    Writes<As, Activation> y;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    return work_of(8, b.x.count());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    gelu_forward_cpu<kIsa>(std::ssize(task.x), task.x.data(), task.y.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return gelu_forward_cuda(context, type_of(task.x), std::ssize(task.x), task.x.data(),
                             task.y.data());
  }
};

/// dy *= gelu'(x), in place: dy becomes dx.
struct GeluBackward : Operation {
  static constexpr Symbol kSymbol{"gelu_backward", 1};
  using Variants = ByActivation;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    Updates<As, Activation> dy;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    return work_of(14, b.x.count());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    gelu_backward_cpu<kIsa>(std::ssize(task.x), task.x.data(), task.dy.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return gelu_backward_cuda(context, type_of(task.x), std::ssize(task.x), task.x.data(),
                              task.dy.data());
  }
};

}  // namespace dos::codelets

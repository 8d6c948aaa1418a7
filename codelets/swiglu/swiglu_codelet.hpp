// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/operation.hpp"
#include "codelets/swiglu/swiglu.hpp"

namespace dos::codelets {

/// Pre: `projected` holds gates and ups, `gated` one of their products.
inline void require_swiglu_sizes(const SwigluShape& shape, Index projected, Index gated) {
  const Index count = shape.tokens * shape.hidden;
  require(gated == count, "a buffer of tokens * hidden elements");
  require(projected == 2 * count, "gate and up in one buffer of 2 * tokens * hidden elements");
}

/// out[tokens, hidden] = silu(gate) * up of x[tokens, 2 * hidden], whose rows hold gate, then up.
struct SwigluForward : Operation {
  static constexpr Symbol kSymbol{"swiglu_forward", 1};
  using Variants = ByActivation;
  using Args = SwigluShape;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    Writes<As, Activation> out;
  };

  static void check(const Buffers<AtSubmission>& b, const Args& shape) {
    require_swiglu_sizes(shape, b.x.count(), b.out.count());
  }
  static rt::Work work(const Buffers<AtSubmission>& b, const Args& shape) {
    return {6 * static_cast<double>(b.out.count()), {shape.tokens, shape.hidden}};
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    swiglu_forward_cpu<kIsa>(task.args, task.x.data(), task.out.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return swiglu_forward_cuda(context, type_of(task.x), task.args, task.x.data(), task.out.data());
  }
};

/// dx[tokens, 2 * hidden] = gradients of gate, then of up, from x and dout[tokens, hidden].
struct SwigluBackward : Operation {
  static constexpr Symbol kSymbol{"swiglu_backward", 1};
  using Variants = ByActivation;
  using Args = SwigluShape;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    Reads<As, Activation> dout;
    Writes<As, Activation> dx;
  };

  static void check(const Buffers<AtSubmission>& b, const Args& shape) {
    require_swiglu_sizes(shape, b.x.count(), b.dout.count());
    require_swiglu_sizes(shape, b.dx.count(), b.dout.count());
  }
  static rt::Work work(const Buffers<AtSubmission>& b, const Args& shape) {
    return {10 * static_cast<double>(b.dout.count()), {shape.tokens, shape.hidden}};
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    swiglu_backward_cpu<kIsa>(task.args, task.x.data(), task.dout.data(), task.dx.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return swiglu_backward_cuda(context, type_of(task.x), task.args, task.x.data(),
                                task.dout.data(), task.dx.data());
  }
};

}  // namespace dos::codelets

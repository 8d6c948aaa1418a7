// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/operation.hpp"
#include "codelets/rotary/rotary.hpp"

/// Rotary position embeddings; contract in rotary.hpp.
namespace dos::codelets {

/// Turns the first heads of each row of x, in place: of qkv forward, of its gradient back.
struct Rotary : Operation {
  static constexpr Symbol kSymbol{"rotary", 1};
  using Variants = ByActivation;
  using Args = RotaryShape;
  template <class As>
  struct Buffers {
    Updates<As, Activation> x;
  };

  static void check(const Buffers<AtSubmission>& b, const Args& shape) {
    require(b.x.count() == shape.sequences * shape.tokens * shape.stride, "rows of every token");
    require(shape.heads * shape.head_size <= shape.stride, "heads inside their row");
    require(shape.head_size % 2 == 0 && shape.head_size <= kLargestRotaryHead,
            "heads of an even number of elements, at most kLargestRotaryHead");
  }
  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& shape) {
    const Index elements = shape.sequences * shape.tokens * shape.heads * shape.head_size;
    return {3 * static_cast<double>(elements),
            {shape.sequences, shape.tokens, shape.heads, shape.head_size}};
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    rotary_cpu<kIsa>(task.args, task.x.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return rotary_cuda(context, type_of(task.x), task.args, task.x.data());
  }
};

}  // namespace dos::codelets

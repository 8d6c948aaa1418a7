// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/operation.hpp"
#include "codelets/rotary/rotary.hpp"

/// Rotary position embeddings; contract in rotary.hpp.
namespace dos::codelets {

/// Turns the first heads of each row of x, in place: of qkv forward, of its gradient back. Of one
/// sequence x may hold all positions, from 0 on; rows of other tokens than shape's stay.
struct Rotary : Operation {
  static constexpr Symbol kSymbol{"rotary", 1};
  using Variants = ByActivation;
  using Args = RotaryShape;
  template <class As>
  struct Buffers {
    Updates<As, Activation> x;
  };

  static void check(const Buffers<AtSubmission>& b, const Args& shape) {
    const Index rows = shape.sequences * shape.tokens + shape.first;
    require(b.x.count() == rows * shape.stride ||
                (shape.sequences == 1 && b.x.count() > rows * shape.stride),
            "rows of every token");
    require(shape.sequences == 1 || shape.first == 0, "one sequence, where it goes on");
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
    rotary_cpu<kIsa>(task.args, first_row(task));
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return rotary_cuda(context, type_of(task.x), task.args, first_row(task));
  }

 private:
  static auto first_row(const auto& task) {
    return task.x.data() + task.args.first * task.args.stride;
  }
};

}  // namespace dos::codelets

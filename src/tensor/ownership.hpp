// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tensor/slots.hpp"

namespace dos::tensor {

/// Types of what forward and backward read and write of the parameters, each kF32 or kBF16.
struct ParameterTypes {
  DType working = DType::kF32;
  DType gradient = DType::kF32;
};

/// Which subgroups of a layout a rank owns, and how much of the others it keeps. The default is a
/// rank without others, which owns everything.
struct Ownership {
  /// 0: one rank. 1: the optimizer's states of owned subgroups only. 2: and gradients of the others
  /// until their owners have them. 3: and parameters of the others while they are computed with.
  Index zero = 0;
  std::vector<bool> owned{};  ///< by subgroup; empty: all

  [[nodiscard]] bool owns(Index subgroup) const {
    return owned.empty() || owned[static_cast<std::size_t>(subgroup)];
  }
};

/// The buffer of each subgroup: subgroups with the same number share one, kNoBuffer has none.
using Buffers = std::vector<Index>;
inline constexpr Index kNoBuffer = -1;

/// Which buffers a rank keeps of everything that has one element a parameter. What is frozen has
/// what forward reads, and nothing else.
struct BufferPlan {
  BufferPlan(const shape::Layout& layout, const ParameterTypes& types, const Ownership& ownership);

  Buffers values;     ///< FP32 parameters: those that updates or, in FP32, forward need
  Buffers working;    ///< narrower ones; none in FP32
  Buffers gradients;  ///< of this rank
  Buffers sums;       ///< FP32 gradients of all ranks; none where `gradients` takes them up
  Buffers states;     ///< one of the optimizer's states
};

/// Elements of all buffers.
Index element_count(const shape::Layout& layout, const Buffers& buffers);

}  // namespace dos::tensor

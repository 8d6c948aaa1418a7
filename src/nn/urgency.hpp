// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::nn {

/// How urgent the tasks of one place in the model are. The longest path of a step runs forward
/// through all depths, back through all depths, then through the updates: what has more of it still
/// before it is more urgent. Parameter gradients hang off that path and come after whatever lies on
/// it.
struct Urgency {
  int path;      ///< tasks that hand activations or their gradients on
  int off_path;  ///< gradients of parameters
};

inline constexpr int kPathPriority = 2 << 20;
inline constexpr int kParameterPriority = 1 << 20;

/// Urgency of the forward pass at `depth` of a model with `depths` depths.
constexpr Urgency forward_urgency(Index depth, Index depths) {
  return {kPathPriority + static_cast<int>(2 * depths - depth), 0};
}

/// Urgency of the backward pass at `depth`.
constexpr Urgency backward_urgency(Index depth) {
  return {kPathPriority + static_cast<int>(depth), kParameterPriority + static_cast<int>(depth)};
}

}  // namespace dos::nn

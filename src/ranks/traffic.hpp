// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>

#include "base/types.hpp"
#include "ranks/tags.hpp"
#include "shape/layout.hpp"

namespace dos::ranks {

/// Bytes by kind of message.
struct Traffic {
  std::array<Index, kKinds> bytes{};

  Index& operator[](Kind kind) { return bytes[static_cast<std::size_t>(kind)]; }
  Index operator[](Kind kind) const { return bytes[static_cast<std::size_t>(kind)]; }
};

/// What decides the traffic of a rank.
struct TrafficCase {
  Index zero = 1;
  Index rank = 0;
  Index ranks = 1;
  Index accumulate = 1;      ///< micro-batches a step
  Index gradient_bytes = 4;  ///< of an element on the wire
  Index parameter_bytes = 4;
};

/// Bytes of gradients and parameters that a rank sends in one step, by the formulas of
/// docs/distributed.md: with P parameters that are trained, of which the rank owns O, on N ranks
///   gradients   (P - O) g      a reduction: one a step, for zero >= 2 one a micro-batch
///   parameters  O (N - 1) w    a broadcast after the update, zero < 3
/// With zero = 3 a broadcast is of the depths whose buffers are not shared; of each other depth the
/// parameters are gathered for each forward and backward pass that reaches it, frozen ones too, but
/// for the pass after the one that left them in the shared buffers.
Traffic expected_traffic(const shape::Layout& layout, std::span<const Index> owners,
                         const TrafficCase& c);

}  // namespace dos::ranks

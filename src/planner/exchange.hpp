// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "perfmodels/machine.hpp"
#include "planner/memory.hpp"

/// What ranks send each other, and how much of it hides behind work. docs/scheduler.md derives it.
namespace dos::planner {

/// Bytes that one of N ranks sends in a step; it receives as many. A gradient is reduced to the
/// rank that owns it, a working parameter sent by its owner to all (ZeRO-1, -2) or gathered before
/// forward and before backward (ZeRO-3): each time (N - 1)/N of the model.
struct WireBytes {
  units::Bytes gradients;
  units::Bytes weights;

  [[nodiscard]] units::Bytes total() const { return gradients + weights; }
};

WireBytes sent_by_rank(const ModelShape& shape, Index ranks, const Settings& settings);

/// The way between the devices of a run: inside a node each device receives at `in_node`, and a
/// node sends and receives at `network`. Both stages of a collective run as a pipeline.
struct Wire {
  Index nodes = 1;
  Index devices_of_node = 1;
  units::BytesPerSecond in_node;
  units::BytesPerSecond network;
  units::Seconds latency;  ///< of one collective: one message a doubling, in the node and outside

  /// The time of an all-gather, a reduce-scatter, or of broadcasts by all owners, of `whole` bytes.
  [[nodiscard]] units::Seconds time(units::Bytes whole) const;
  /// The slower stage: "network", "links of the node", or "nothing" when there is one device.
  [[nodiscard]] std::string slower() const;
};

/// Throws Error when the run needs several nodes and the machine file has no [network].
Wire wire_of(const perfmodels::Machine& machine, const Layout& layout);

/// What one depth of the model costs a device.
struct LayerWork {
  units::Seconds forward;
  units::Seconds backward;
  units::Seconds exchange;  ///< of its weights, or of its gradients
};

struct PhaseTimes {
  units::Seconds forward;
  units::Seconds backward;
  units::Seconds exposed{0};  ///< of both: what they wait for other ranks
};

/// Forward and backward over layers, in the order of forward, beside one collective at a time.
/// ZeRO-1, -2: a layer's weights are sent once it is updated, which happens evenly during `update`,
/// and forward waits for them; its gradients are reduced once it has run backward. ZeRO-3: weights
/// are gathered one layer ahead of the one at work, in both passes. Forward begins when the update
/// has ended, and backward ends with the last reduction.
PhaseTimes overlapped(std::span<const LayerWork> layers, Index zero, units::Seconds update);

}  // namespace dos::planner

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "perfmodels/machine.hpp"
#include "planner/memory.hpp"

/// What ranks send each other, and how much of it hides behind work. docs/planner.md derives it.
namespace dos::planner {

/// Bytes that one of N ranks sends in a step; it receives as many. A gradient is reduced to the
/// rank that owns it, a working parameter sent by its owner to all (ZeRO-1, -2) or gathered before
/// forward and before backward (ZeRO-3): each time (N - 1)/N of the model. What is frozen has no
/// gradient, and is sent where it is gathered only; backward gathers what it reaches.
struct WireBytes {
  units::Bytes gradients;
  units::Bytes weights;

  [[nodiscard]] units::Bytes total() const { return gradients + weights; }
};

WireBytes sent_by_rank(const shape::Model& model, Index ranks, const PlanSettings& settings);

/// One of the things that an exchange occupies.
struct Stage {
  std::string name;
  units::SecondsPerByte cost;  ///< for a byte of what is exchanged, whole
};

/// The way between the devices of a run. All stages work at once, as a pipeline.
struct Wire {
  std::vector<Stage> stages;  ///< none: there is one device
  units::Seconds latency{0};  ///< of one exchange

  /// The time of gathering, reducing, or broadcasting by their owners, `whole` bytes.
  [[nodiscard]] units::Seconds time(units::Bytes whole) const;
  /// The name of the slowest stage; "nothing" when there is none.
  [[nodiscard]] std::string slowest() const;
};

/// As settings.exchange says. Throws Error when the run needs several nodes and the machine file
/// has no [network].
Wire wire_of(const perfmodels::Machine& machine, const Deployment& layout,
             const PlanSettings& settings);

/// The way of a layer's activations between the device and where they are moved: what each part of
/// it takes, which work at once.
struct Move {
  units::Seconds link{0};
  units::Seconds disk{0};
};

/// What one depth of the model costs a device.
struct LayerWork {
  units::Seconds forward;
  units::Seconds backward;
  units::Seconds exchange;   ///< of its weights: gathered, or sent by their owners
  units::Seconds reduction;  ///< of its gradients
  Move store{};              ///< of its activations, behind forward
  Move load{};               ///< of the same, before backward
};

struct PhaseTimes {
  units::Seconds forward;
  units::Seconds backward;
  units::Seconds exposed{0};        ///< of both: what they wait for other ranks
  units::Seconds moving{0};         ///< of both: what they wait for activations that are moved
  units::Seconds forward_waits{0};  ///< what of these is in forward
  // Of forward, waited for or not:
  units::Seconds gathers{0};  ///< ZeRO-3's weights of other ranks
  units::Seconds stores{0};   ///< activations over the device's link
};

/// Forward and backward over layers, in the order of forward, beside one collective at a time.
/// ZeRO-1, -2: a layer's weights are sent once it is updated, which happens evenly during `update`,
/// and forward waits for them; its gradients are reduced once it has run backward. ZeRO-3: weights
/// are gathered one layer ahead of the one at work, in both passes. Forward begins when the update
/// has ended, and backward ends with the last reduction. Layers whose activations are moved share
/// the buffers of three: one that is stored keeps the third behind it from being computed, and is
/// loaded once that one is through backward.
PhaseTimes overlapped(std::span<const LayerWork> layers, Index zero, units::Seconds update);

}  // namespace dos::planner

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "planner/passes.hpp"

namespace dos::planner {

/// Of two times one so much longer counts as the same, and what is moved decides: a plan that moves
/// less wears no disk, and leaves links to others.
inline constexpr double kSameTime = 0.01;

/// What one device has for activations from forward to backward.
struct ActivationRoom {
  units::Bytes device;   ///< for the buffers of what blocks keep
  units::Bytes host{0};  ///< of its part of host memory, for what is moved there; 0: nothing is
  units::Bytes disk{0};  ///< of its part of the disk
  bool buffers_on_host = false;  ///< each buffer of the device has as much host memory, too
};

struct ActivationChoice {
  shape::ActivationPlan plan;
  units::Seconds passes;  ///< forward and backward
};

/// What a plan takes of such room.
ActivationRoom activation_need(const PassModel& passes, const shape::ActivationPlan& plan);

/// Whether a plan is to be preferred to another, of times `fastest` or longer: within kSameTime of
/// it what moves fewer blocks to a disk, then fewer blocks, then takes less time.
struct ActivationRank {
  bool is_slow = false;
  Index on_disk = 0;
  Index moved = 0;
  units::Seconds time;

  auto operator<=>(const ActivationRank&) const = default;
};
ActivationRank rank_of(const PassModel& passes, const shape::ActivationPlan& plan,
                       units::Seconds time, units::Seconds fastest);

/// Of all plans that fit the one of best rank, by forward and backward; nullopt: none fits. What is
/// kept without loss where everything fits: nothing is moved or made again then. Exact: every split
/// of blocks is looked at, but for those that make again or move more than another one that fits.
std::optional<ActivationChoice> choose_activations(const PassModel& passes,
                                                   const ActivationRoom& room);

}  // namespace dos::planner

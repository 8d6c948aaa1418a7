// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "planner/passes.hpp"

namespace dos::planner {

/// Of two times one so much longer counts as the same, and what is moved decides: a plan that moves
/// less wears no disk, and leaves links to others.
inline constexpr double kSameTime = 0.01;

/// What one device has for activations from forward to backward.
struct ActivationRoom {
  units::Bytes device;  ///< for the buffers of what blocks keep
  /// Of its part of host memory, for what is moved there, and for the buffers through which that
  /// and what goes to disks passes; 0: nothing is moved there.
  units::Bytes host{0};
  units::Bytes disk{0};  ///< of its part of the disk
};

/// A plan, and what it is weighed by: forward and backward, with the update where it is known.
struct ActivationChoice {
  shape::ActivationPlan plan;
  units::Seconds time;
};

/// What a plan takes of such room.
ActivationRoom activation_need(const PassModel& passes, const shape::ActivationPlan& plan);

/// Orders plans, the one to prefer first, beside one that takes `fastest`: those within kSameTime
/// of it, then those that move fewer blocks to a disk, fewer blocks, take less time.
struct ActivationRank {
  bool is_slow = false;
  Index on_disk = 0;
  Index moved = 0;
  units::Seconds time;

  auto operator<=>(const ActivationRank&) const = default;
};
ActivationRank rank_of(const PassModel& passes, const shape::ActivationPlan& plan,
                       units::Seconds time, units::Seconds fastest);

/// The place of the first by rank. Pre: there is one.
std::size_t preferred(const PassModel& passes, std::span<const ActivationChoice> choices);

/// Of all plans that fit the first by rank, of forward and backward; nullopt: none fits. Where
/// everything fits, all is kept. Exact: every split of blocks is looked at, but for those that
/// compute again or move more than another one that fits.
std::optional<ActivationChoice> choose_activations(const PassModel& passes,
                                                   const ActivationRoom& room);

}  // namespace dos::planner

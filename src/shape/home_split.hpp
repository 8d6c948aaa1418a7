// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace dos::shape {

/// No fewer than so many states are in host memory at the same time: one is used while one comes.
inline constexpr Index kLeastSlots = 2;
/// Slots beside those that workers update in: two are read, two are written.
inline constexpr Index kSlotsUnderWay = 4;

/// Of host memory that a run leaves beside slots, the part that states take which could live on
/// disks: what else comes to the machine meanwhile, files among it, has the rest.
inline constexpr double kPartForStates = 0.75;

/// Host memory for states where nobody says how much (sched.host_memory=auto), and disks have what
/// it has no room for: slots, and most of what is left beside them. Bytes.
constexpr double memory_for_states(double slots, double left) {
  return slots + kPartForStates * (left > 0 ? left : 0);
}

/// Memory for states: of the host, slots included (0: no more than the slots), and of each device
/// for those that live there, in bytes; and how many disks there are.
struct HomeRooms {
  Index host = 0;
  std::vector<Index> devices{};
  Index disks = 1;  ///< 0: what devices have no room for is in host memory, whatever that has
};

/// Where each of a list of states lives.
struct HomeSplit {
  std::vector<std::size_t> on_disk{};  ///< places in the list
  std::vector<Index> device{};         ///< by place: the one where they live, -1 elsewhere
  Index slots = 0;                     ///< 0: all are at home in host memory
  Index slot_bytes = 0;                ///< of the largest

  [[nodiscard]] bool are_in_host_memory() const { return slots == 0; }
};

/// Of states of these sizes, in bytes, in the order of updates; `workers` update, one each. Those
/// that fit into host memory have their home there: a policy may have some stay on devices
/// all the same. Else devices keep for good what they have room for, spread evenly over the order
/// of updates. What the host has no room for then is on disks: slots come first, as many as keep
/// workers busy while others are read and written, fewer where they are all that fits; as many
/// states as there is room for beside them stay, spread evenly, too, so that disks are needed all
/// the time. Throws Error, naming sched.host_memory, where there is no room for two slots.
HomeSplit split_homes(std::span<const Index> sizes, Index workers, const HomeRooms& rooms);

}  // namespace dos::shape

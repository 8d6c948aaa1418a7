// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "offload/state_form.hpp"
#include "rt/memory_ledger.hpp"
#include "shape/home_split.hpp"
#include "shape/layout.hpp"
#include "shape/state_regions.hpp"
#include "tensor/ownership.hpp"

namespace dos::offload {

/// Which subgroups' states, and FP32 parameters where forward reads others, live away from host
/// memory between updates, and the host memory that they take while they are used there: slots,
/// each for one subgroup.
struct HomePlan {
  struct Away {
    Index subgroup;
    Index device = -1;  ///< that keeps them, among shape::HomeRooms::devices; -1: a disk has them
  };
  std::vector<Away> away{};  ///< in the order of updates
  Index states = 0;          ///< of the update rule, FP32 each
  bool with_parameters = false;
  Index slots = 0;
  Index slot_bytes = 0;  ///< of the largest that is away

  [[nodiscard]] bool are_all_in_host_memory() const { return away.empty(); }
  /// Subgroups, in the order of updates.
  [[nodiscard]] std::vector<Index> on_disks() const;
  [[nodiscard]] std::vector<Index> on_devices() const;
  /// FP32 buffers of a subgroup.
  [[nodiscard]] Index buffers() const { return states + (with_parameters ? 1 : 0); }
  /// Of the slots.
  [[nodiscard]] Index memory() const { return slots * slot_bytes; }
  /// Of what each device keeps.
  [[nodiscard]] std::vector<Index> memory_of_devices(const shape::Layout& layout,
                                                     Index devices) const;
};

/// Bytes of one buffer of a subgroup in a slot and on a disk: whole pages, so that transfers go
/// past the page cache without a copy.
Index padded_bytes(const shape::Subgroup& subgroup);

/// The regions of so many disks that the states need which live there. `forms`: of their files, by
/// subgroup.
shape::StateRegions regions_of(const shape::Layout& layout, const HomePlan& plan,
                               std::span<const StateForm> forms, Index disks);

/// Host memory that the plan saves, by category: buffers that are away, less the slots, which count
/// as states.
rt::MemoryBytes saved_memory(const shape::Layout& layout, const HomePlan& plan);

/// "949 MiB of 70 subgroups, through 6 slots of 38.2 MiB": of disks; "" where nothing is there.
std::string describe_disks(const shape::Layout& layout, const HomePlan& plan);
/// "1.2 GiB of 80 subgroups", likewise of devices.
std::string describe_devices(const shape::Layout& layout, const HomePlan& plan);

/// What may be away of a rank: trained, and its own.
struct HomeRequest {
  const shape::Layout& layout;
  const tensor::Ownership& ownership;
  Index states = 0;              ///< of the update rule
  bool with_parameters = false;  ///< forward reads others
  Index workers = 0;             ///< that update, each one subgroup at a time
  shape::HomeRooms rooms{};
};

/// shape::split_homes() of the rank's states. Throws as it does.
HomePlan plan_homes(const HomeRequest& request);

}  // namespace dos::offload

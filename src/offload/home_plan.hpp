// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "rt/memory_ledger.hpp"
#include "shape/layout.hpp"
#include "tensor/ownership.hpp"

namespace dos::offload {

/// Which subgroups' states, and FP32 parameters where forward reads others, live on disks between
/// updates, and the host memory that they take while they are used: slots, each for one subgroup.
struct HomePlan {
  std::vector<Index> subgroups{};  ///< on disk, in the order of updates
  Index states = 0;                ///< of the update rule, FP32 each
  bool with_parameters = false;
  Index slots = 0;
  Index slot_bytes = 0;  ///< of the largest that is on disk

  [[nodiscard]] bool has_disks() const { return slots > 0; }
  /// FP32 buffers of a subgroup.
  [[nodiscard]] Index buffers() const { return states + (with_parameters ? 1 : 0); }
  /// Of the slots.
  [[nodiscard]] Index memory() const { return slots * slot_bytes; }
};

/// Bytes of one buffer of a subgroup in a slot and on a disk: whole pages, so that transfers go
/// past the page cache without a copy.
Index padded_bytes(const shape::Subgroup& subgroup);

/// Host memory that the plan saves, by category: buffers that are on disk, less the slots, which
/// count as states.
rt::MemoryBytes saved_memory(const shape::Layout& layout, const HomePlan& plan);

/// "949 MiB of 70 subgroups, through 6 slots of 38.2 MiB". Pre: has_disks().
std::string describe(const shape::Layout& layout, const HomePlan& plan);

/// What may be on disk of a rank: trained, and its own.
struct HomeRequest {
  const shape::Layout& layout;
  const tensor::Ownership& ownership;
  Index states = 0;              ///< of the update rule
  bool with_parameters = false;  ///< forward reads others
  Index workers = 0;             ///< that update, each one subgroup at a time
  Index host_memory = 0;         ///< bytes for states, slots included; 0: no more than the slots
};

/// States that fit into host memory stay there. Else slots come first, as many as keep all workers
/// busy while others are read and written, fewer where they are all that fits; as many states as
/// there is room for beside them stay, spread evenly over the order of updates, so that disks are
/// needed all the time, and the others are on disks. Throws Error, naming sched.host_memory, where
/// there is no room for two slots.
HomePlan plan_homes(const HomeRequest& request);

}  // namespace dos::offload

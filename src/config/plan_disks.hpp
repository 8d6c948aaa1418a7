// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/option.hpp"
#include "offload/disk_place.hpp"

// How plan reads the keys of states on disks.

namespace dos::config {

inline void set_disks(planner::PlanSettings& settings, const std::string& text) {
  settings.disks.clear();
  for (const offload::DiskPlace& disk : offload::parse_disks(text)) {
    planner::PlannedDisk planned{.folder = disk.folder.string()};
    if (disk.bytes) planned.most = units::Bytes(static_cast<double>(*disk.bytes));
    settings.disks.push_back(planned);
  }
}

inline constexpr Any kDisks{"offload::parse_disks() reads it"};
inline constexpr PlanOption kPlanDisks{
    "FOLDER:SIZE,FOLDER: as train_gpt; each is the machine's [[tier]] of this name, else the next "
    "one; empty: all of them where states need them",
    &set_disks, kDisks};

inline constexpr Range kStateMemory =
    or_auto({.least = 0, .most = 1e6, .note = " GB (or be auto)"});
inline constexpr PlanOption kPlanStateMemory{
    "GB of a rank's host memory for states, with disks; auto: most of what a run leaves; 0: as "
    "little as can be",
    &planner::set_state_memory, kStateMemory};

}  // namespace dos::config

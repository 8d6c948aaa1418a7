// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "config/option.hpp"
#include "offload/disk_place.hpp"

// How plan reads the keys of what is on disks.

namespace dos::config {

inline std::vector<planner::PlannedDisk> planned_disks(
    const std::vector<offload::DiskPlace>& places) {
  std::vector<planner::PlannedDisk> disks;
  for (const offload::DiskPlace& place : places) {
    planner::PlannedDisk& planned = disks.emplace_back();
    planned.folder = place.folder.string();
    if (place.bytes) planned.most = units::Bytes(static_cast<double>(*place.bytes));
  }
  return disks;
}
inline void set_disks(planner::PlanSettings& settings, const std::string& text) {
  settings.disks = planned_disks(offload::parse_disks(text));
}
inline void set_activation_disks(planner::PlanSettings& settings, const std::string& text) {
  settings.activation_disks = planned_disks(offload::parse_disks(text, "train.activation_disks"));
}

inline constexpr Any kDisks = list("offload::parse_disks() reads it");
inline constexpr PlanOption kPlanDisks{
    "FOLDER:SIZE,FOLDER: as train_gpt; each is the machine's [[tier]] of this name or with this "
    "folder, else the next one; empty: all of them where states need them",
    &set_disks, kDisks};
inline constexpr PlanOption kPlanActivationDisks{
    "folders for activations, likewise; empty: those of sched.disks, or the fastest [[tier]]",
    &set_activation_disks, kDisks};
inline constexpr Range kCheckpointEvery = or_auto({.least = 0, .note = " (or be auto)"});
inline constexpr PlanOption kPlanCheckpointEvery{
    "steps between checkpoints, for what they write to disks of activations; 0, auto: none counts",
    [](planner::PlanSettings& s, Index steps) { s.checkpoint_every = std::max<Index>(0, steps); },
    kCheckpointEvery};
inline constexpr PlanOption kPlanCheckpointFolder{
    "where checkpoints come first: a [[tier]] by name or folder; empty: no disk of the plan",
    [](planner::PlanSettings& s, const std::string& folder) { s.checkpoint_folder = folder; },
    Any{"the folder need not be there"}};

inline constexpr Range kStateMemory =
    or_auto({.least = 0, .most = 1e6, .note = " GB (or be auto)"});
inline constexpr PlanOption kPlanStateMemory{
    "GB of a rank's host memory for states, with disks; auto: most of what a run leaves; 0: as "
    "little as can be",
    &planner::set_state_memory, kStateMemory};

}  // namespace dos::config

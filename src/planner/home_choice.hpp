// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "planner/plan_settings.hpp"
#include "sched/workload.hpp"
#include "shape/home_split.hpp"

namespace dos::planner {

/// Where a training has the states of a problem (docs/disks.md): in host memory while that has room
/// for all; else what GPUs have room for stays there for good, beside a window of updates, and what
/// the host then has no room for is on disks. `gpus`: of each what is free at the peak of forward
/// and backward. None are away where host memory has no room for two subgroups. Pre: disks > 0.
shape::HomeSplit split_states(const sched::Problem& problem, units::Bytes host,
                              const std::vector<units::Bytes>& gpus, Index disks);

/// The same for the host memory that a training gives them, where Problem::host_memory is what it
/// has room for: settings.state_memory, else what shape::memory_for_states() says; where no disks
/// are named, and it has room for all, they stay. Sets Problem::host_memory to it, and slots, and
/// what GPUs keep. Throws Error as shape::split_homes().
void give_homes(const PlanSettings& settings, const std::vector<units::Bytes>& gpus,
                sched::Problem& problem);

/// Has GPUs keep what the split gives them (sched::Subgroup::kept_on).
void keep(const shape::HomeSplit& split, sched::Problem& problem);

}  // namespace dos::planner

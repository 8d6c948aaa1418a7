// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "planner/planner.hpp"
#include "simulated/node_process.hpp"
#include "simulated/step_task.hpp"

namespace dos::bench {

/// What a user asks of simulated_step, as given.
struct StepRequest {
  std::string machine;
  std::string model;
  Index ranks = 0;  ///< 0: one a GPU of the machine
  Index micro_batch = 1;
  std::string policy = "dos";
  planner::PlanSettings settings{};
  Index steps = 2;
  bool goes_ahead = false;  ///< as StepTask
  bool is_unclipped = false;
  Index clipped_every = 0;
  std::optional<double>
      state_memory{};  ///< GB of the GPU for states; all that is left if not given
  /// "READ:WRITE" or "READ:WRITE:BOTH", GB/s: disks of the node beside those of the machine file.
  std::vector<std::string> disks{};
  std::string trace;  ///< folder
};

/// A node and what one of its ranks does there.
struct SimulatedStep {
  NodeHost node;
  StepTask task;
  Index subgroup_params = 0;  ///< of the largest
  planner::PhaseTimes phases;
  units::Bytes on_gpu{0};   ///< states that live there for good
  units::Bytes in_host{0};  ///< states that live there
  units::Bytes on_disk{0};
  units::Seconds planned{0};  ///< of the planner: the whole step, with clipping
  sched::Bound bound;         ///< of the whole step, in which nothing waits for anything else
};

/// Durations, subgroups and memory of the planner's model of the step (planner/planner.hpp): what
/// ranks exchange is in the durations, what moves between host and GPU is left to the simulation.
/// Throws Error, with value, place and remedy in one line.
SimulatedStep prepare(const StepRequest& request, const std::filesystem::path& machines);

}  // namespace dos::bench

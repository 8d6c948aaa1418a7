// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sched/policy.hpp"

namespace dos::bench {

// What simulated_step and the program on the simulated node tell each other, as JSON.

/// What forward and backward do at one depth of the model.
struct DepthTask {
  double forward = 0;     ///< seconds
  double backward = 0;    ///< seconds
  Index activations = 0;  ///< bytes that stay on the GPU from forward to backward
};

/// Whole training steps of one rank with one GPU.
struct StepTask {
  std::string machine;
  std::string model;  ///< in words
  std::string policy;
  sched::PolicyOptions options{};
  std::vector<sched::Subgroup> subgroups;  ///< in the order of forward
  std::vector<DepthTask> depths;
  Index forward_workspace = 0;   ///< bytes that the layers use besides, in both passes
  Index backward_workspace = 0;  ///< bytes from the last layer's forward to the end of backward
  bool releases_activations = false;  ///< for updates (planner::needs_dead_activations)
  Index cpu_workers = 0;
  double cpu_rate = 0;  ///< parameters a second, of one worker
  double gpu_rate = 0;
  Index steps = 0;    ///< that are recorded
  std::string trace;  ///< folder
};

struct StepResult {
  std::vector<double> seconds;  ///< of each recorded step
  double link_bytes = 0;        ///< that StarPU counted in them, over all links
  std::string plan;             ///< in words
  std::string obstacle;         ///< why there is no plan
};

std::string to_json(const StepTask& task);
StepTask step_task_of(const std::string& json);
std::string to_json(const StepResult& result);
/// Throws Error with the message when the program on the node failed (error_json).
StepResult step_result_of(const std::string& json);

}  // namespace dos::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulated/node_message.hpp"

namespace dos::bench {

// What update_phase and the program on the simulated node tell each other, as JSON.

/// Updates before those that count: in the first the policy learns the rates, then it plans and
/// states that stay on a GPU move there; rates settle within some ten updates, and with them the
/// plan.
inline constexpr Index kWarmUps = 4;

/// How many times as long an update takes in one more step: 1, and there is none.
struct Slowness {
  double gpu = 1;     ///< on the first GPU
  double worker = 1;  ///< on the first CPU worker
  [[nodiscard]] bool is_asked_for() const { return gpu > 1 || worker > 1; }
};

/// What the program on the node runs.
struct NodeTask {
  std::string policy;
  sched::PolicyOptions options{};
  Index params = 0;
  sched::Cut cut{};
  Index gpus = 0;
  Index cpu_workers = 0;
  double cpu_rate = 0;  ///< parameters a second, of one worker
  double gpu_rate = 0;  ///< of one GPU
  Index steps = 0;      ///< that count
  Index warm_ups = 0;   ///< before them
  Slowness slow{};
};

/// One update of all parameters.
struct NodeStep {
  double seconds = 0;
  double bytes_h2d = 0;
  double bytes_d2h = 0;
};

struct NodeResult {
  std::vector<double> settling{};  ///< seconds of the steps before those that count
  std::vector<NodeStep> steps;     ///< those that count
  std::string plan;                ///< in words; empty under StarPU's own policies
  std::string obstacle;            ///< why there is no plan
  double gpu_share = 0;            ///< of the parameters, as executed in the last step; with a plan
  std::optional<double> slow_seconds{};  ///< of the step with a slow device
};

/// The GPU of each subgroup that runs forward and backward with it: in turn, large ones and small
/// ones each for themselves.
std::vector<Index> deal(const std::vector<sched::Subgroup>& subgroups, Index gpus);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Slowness, gpu, worker)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeTask, policy, options, params, cut, gpus, cpu_workers,
                                   cpu_rate, gpu_rate, steps, warm_ups, slow)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeStep, seconds, bytes_h2d, bytes_d2h)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeResult, settling, steps, plan, obstacle, gpu_share,
                                   slow_seconds)

}  // namespace dos::bench

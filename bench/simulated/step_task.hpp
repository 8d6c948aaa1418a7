// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "simulated/node_message.hpp"

namespace dos::bench {

// What simulated_step and the program on the simulated node tell each other, as JSON.

/// What forward and backward do at one depth of the model.
struct DepthTask {
  double forward = 0;     ///< seconds
  double backward = 0;    ///< seconds
  Index activations = 0;  ///< bytes that stay on the GPU from forward to backward
};

/// A disk of the node, as the rank sees it. Bytes a second.
struct DiskTask {
  double read = 0;      ///< alone
  double write = 0;     ///< alone
  double both = 0;      ///< at once, their sum; 0: they take turns
  double latency = 0;   ///< seconds, of a transfer
  double capacity = 0;  ///< bytes
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
  bool goes_ahead = false;       ///< updates do, of the norm, into second banks
  bool is_unclipped = false;     ///< updates wait for their own gradient alone
  Index clipped_every = 0;       ///< so many steps, one whose updates are made again; 0: none
  bool releases_activations = false;  ///< for updates (planner::needs_dead_activations)
  std::vector<DiskTask> disks{};
  std::vector<std::size_t> on_disk{};  ///< subgroups whose states live there
  std::vector<std::size_t> on_gpu{};   ///< and on the GPU
  Index slots = 0;                     ///< of host memory, for states on their way
  Index cpu_workers = 0;
  double cpu_rate = 0;  ///< parameters a second, of one worker
  double gpu_rate = 0;
  Index steps = 0;    ///< that are recorded
  std::string trace;  ///< folder

  /// Whether a subgroup's states live on a disk or the GPU: then they have one bank.
  [[nodiscard]] bool are_away(std::size_t subgroup) const {
    return std::ranges::count(on_disk, subgroup) + std::ranges::count(on_gpu, subgroup) > 0;
  }
  /// Whether updates of a step are made again.
  [[nodiscard]] bool is_clipped(Index step) const {
    return clipped_every > 0 && step % clipped_every == 0;
  }
  /// Of the sum of squares of a gradient: before updates; before forward and backward, too, where
  /// the update waits for no other, and does not keep a device from one that has a slot.
  [[nodiscard]] int sum_priority(std::size_t subgroup) const {
    const bool is_prompt = on_disk.empty() || std::ranges::count(on_disk, subgroup) > 0;
    const std::size_t passes = is_unclipped && is_prompt ? 2 * depths.size() + subgroups.size() : 0;
    return static_cast<int>(passes + subgroups.size()) + 1;
  }
};

struct StepResult {
  std::vector<double> seconds;  ///< of each recorded step
  double link_bytes = 0;        ///< that StarPU counted in them, over all links
  double disk_bytes = 0;        ///< read and written in them
  double disk_busy = 0;         ///< seconds of them in which disks had a transfer, the mean of all
  std::string plan;             ///< in words
  std::string obstacle;         ///< why there is no plan
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DepthTask, forward, backward, activations)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DiskTask, read, write, both, latency, capacity)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepTask, machine, model, policy, options, subgroups, depths,
                                   forward_workspace, backward_workspace, goes_ahead, is_unclipped,
                                   clipped_every, releases_activations, disks, on_disk, on_gpu,
                                   slots, cpu_workers, cpu_rate, gpu_rate, steps, trace)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepResult, seconds, link_bytes, disk_bytes, disk_busy, plan,
                                   obstacle)

}  // namespace dos::bench

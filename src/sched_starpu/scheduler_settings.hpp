// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "perfmodels/rates.hpp"
#include "sched/policy.hpp"
#include "sched_starpu/tuning.hpp"

struct starpu_task;

namespace dos::sched_starpu {

/// Told where an update is sent, under the scheduler's lock: the memory node of the workers that
/// are to run it, and whether its states stay there.
using PlacementObserver = void (*)(const starpu_task* task, Index params, int node,
                                   bool is_resident);

/// Bytes of a memory node whose contents the program has released: dead, and free for updates.
/// Asked under the scheduler's lock.
using ReleasedMemory = Index (*)(int node);

/// How a policy runs.
struct SchedulerSettings {
  sched::PolicyOptions options{};
  /// Tasks whose performance model has a symbol that starts with it are updates.
  std::string update_prefix = "dos.update.";
  /// Likewise of updates that are made once more, in the step of those.
  std::string redo_prefix = "dos.redo.";
  /// Whether forward and backward run on the CPU; nothing: if updates write no working parameters
  /// of their own.
  std::optional<bool> model_on_host{};
  /// Whether gradients come to updates in host memory even so: sums of several ranks.
  bool gradients_on_host = false;
  /// Whether a policy that adapts does: where a device is late, or updates run beside backward.
  bool fallback = true;
  PlacementObserver observer = nullptr;
  ReleasedMemory released = nullptr;  ///< null: nothing is ever released
  /// Of each GPU, as calibrate has measured it for this rank: StarPU measures one direction of a
  /// link at a time, and no CPU at work beside it.
  std::optional<perfmodels::GpuRates> measured_link{};
  Tuning tuning{};
};

}  // namespace dos::sched_starpu

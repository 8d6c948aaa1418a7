// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "sched/policy.hpp"

struct starpu_task;

namespace dos::sched_starpu {

/// Learns where an update is sent: its task, its parameters, the memory node of the workers that
/// are to run it, and whether its states stay there. Called under the scheduler's lock.
using PlacementObserver = void (*)(const starpu_task* task, Index params, int node,
                                   bool is_resident);

/// Bytes on a memory node of buffers whose contents the program has released: dead, and free for
/// updates. Called under the scheduler's lock.
using ReleasedMemory = Index (*)(int node);

/// How a policy runs.
struct Settings {
  sched::PolicyOptions options{};
  /// Tasks whose performance model has a symbol that starts with it are updates.
  std::string update_prefix = "dos.update.";
  /// Whether forward and backward run on the CPU. Where it is not said, they are taken to run there
  /// if updates write no working parameters of their own.
  std::optional<bool> model_on_host{};
  /// Whether updates find their gradients in host memory though forward and backward run on GPUs:
  /// sums of several ranks, which arrive there.
  bool gradients_on_host = false;
  /// Whether a policy that adapts does: updates may run elsewhere than planned, where a device is
  /// late or they run beside backward.
  bool fallback = true;
  PlacementObserver observer = nullptr;
  ReleasedMemory released = nullptr;  ///< null: nothing is ever released
};

}  // namespace dos::sched_starpu

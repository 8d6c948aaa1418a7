// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sched/policy.hpp"

namespace dos::sched_starpu {

/// How a policy runs.
struct Settings {
  std::string policy = "dos";  ///< of sched/registry.hpp
  sched::PolicyOptions options;
  /// Tasks whose performance model has a symbol that starts with it are updates.
  std::string update_prefix = "dos.update.";
  /// Whether idle workers take updates from others; the baselines keep to their plan.
  bool adapts = true;
};

}  // namespace dos::sched_starpu

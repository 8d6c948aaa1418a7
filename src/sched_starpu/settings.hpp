// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sched/policy.hpp"

namespace dos::sched_starpu {

/// How a policy runs.
struct Settings {
  sched::PolicyOptions options;
  /// Tasks whose performance model has a symbol that starts with it are updates.
  std::string update_prefix = "dos.update.";
};

}  // namespace dos::sched_starpu

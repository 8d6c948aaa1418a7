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
  /// Whether forward and backward run on the CPU although updates write working parameters of their
  /// own. Without such parameters they are taken to run there.
  bool model_on_host = false;
};

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "sched/policy.hpp"

namespace dos::sched_starpu {

/// How a policy runs.
struct Settings {
  sched::PolicyOptions options{};
  /// Tasks whose performance model has a symbol that starts with it are updates.
  std::string update_prefix = "dos.update.";
  /// Whether forward and backward run on the CPU. Where it is not said, they are taken to run there
  /// if updates write no working parameters of their own.
  std::optional<bool> model_on_host{};
};

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "sched/policy.hpp"

namespace dos::bench {

/// What a user asked of a policy; what was not said is absent.
nlohmann::json options_json(const sched::PolicyOptions& options);
sched::PolicyOptions options_of(const nlohmann::json& json);

}  // namespace dos::bench

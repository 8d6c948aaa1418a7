// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "sched/policy.hpp"

namespace dos::sched {

/// Every policy, `dos` first.
std::span<const Policy> policies();

/// Null when the name is none of theirs: one of StarPU's, say.
const Policy* own_policy(const std::string& name);

/// Throws Error with the nearest name and all known ones.
const Policy& find_policy(const std::string& name);

}  // namespace dos::sched

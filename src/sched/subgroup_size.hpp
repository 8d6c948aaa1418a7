// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sched/policy.hpp"

namespace dos::sched {

/// As few subgroups as sizes of at most `size` allow, all of one size but perhaps the last, which
/// is smaller: equal sizes let a runtime use memory of the GPU again. Depths are places.
/// Pre: params >= 1, size >= 1.
std::vector<Subgroup> cut_evenly(Index params, Index size);

/// The size of subgroups with which the policy's plan has the shortest replay; of sizes within
/// 0.2 % the largest, which makes the fewest tasks. `problem` is complete but for its subgroups.
/// Throws Error when no size can be planned.
Index choose_subgroup_size(const std::string& policy, Problem problem, Index params,
                           const PolicyOptions& options);

}  // namespace dos::sched

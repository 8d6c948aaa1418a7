// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sched/policy.hpp"

namespace dos::sched {

/// Subgroups of a rank that a plan may have. A policy replays a plan some dozens of times, each in
/// a fraction of a second with so many; StarPU needs a second a step for the tasks of so many.
inline constexpr Index kMostSubgroups = 100'000;

/// Throws Error unless parts of these sizes, each cut into pieces of at most `size`, are at most
/// kMostSubgroups pieces. `option` is "--subgroup" or "sched.subgroup_params =": the message names
/// it with the size, and the smallest one that works. Pre: sizes >= 1, size >= 1.
void expect_few_subgroups(const std::vector<Index>& parts, Index size, const std::string& option);

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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sched/policy.hpp"

namespace dos::sched {

/// The plan of one step on the way to `target`, from where the states are (Problem::homes):
/// residents that are at home stay, of the others some come in this step, and what does not come is
/// updated by the CPU. Moving is part of updating: what comes need not go back.
///
/// As many come as can without the step being slower than under the best of the other policies from
/// states in host memory; where even the fastest step is slower, as many as in that. Returns
/// `target` where nothing has to move, or where a policy keeps to its plan. `time` is that of the
/// replay of this step.
Plan step_towards(const Problem& problem, const Plan& target, const PolicyOptions& options);

}  // namespace dos::sched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sched/plan.hpp"

namespace dos::sched {

/// The plan of one step on the way to `target`, from where the states are (Problem::homes):
/// residents that are at home stay, of the others some come in this step, and what does not come is
/// updated by the CPU. Moving is part of updating: what comes need not go back.
///
/// As many come as lose the least time until all are at home: where links are fast, or the target
/// much faster than the CPU, all at once; where links are slow, as many as come beside the CPU's
/// updates. At least one does. Returns `target` where nothing has to move; a policy that keeps to
/// its plan moves all at once. `time` is that of the replay of this step.
Plan step_towards(const Problem& problem, const Plan& target);

}  // namespace dos::sched

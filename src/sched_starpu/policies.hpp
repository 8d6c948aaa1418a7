// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sched_starpu/settings.hpp"
#include "sched_starpu/update_board.hpp"

struct starpu_sched_policy;

namespace dos::sched_starpu {

/// StarPU policies named like those of sched/registry.hpp, `dos` first. They live as long as the
/// program.
std::vector<starpu_sched_policy*> policies();

/// What the policies that are initialised from now on take. Without a call they take
/// settings_from_environment().
void configure(const Settings& settings);

/// The settings in DOS_SCHED_STRIDE, DOS_SCHED_SHARE, DOS_SCHED_WINDOW, DOS_SCHED_RESIDENTS and
/// DOS_SCHED_UPDATE_PREFIX, for programs that load the policies as a plug-in. Throws Error naming
/// the variable, also for one that has the prefix DOS_SCHED_ and is none of these.
Settings settings_from_environment();

/// Of the policy that runs; empty when none of ours does.
Report report();
/// The report of one step, counted from 1 since the policy was started, while tasks may run;
/// nothing when none of ours runs, or the step is too long ago or yet to come.
std::optional<StepReport> step_report(Index step);
/// Report::obstacle, while tasks may run.
std::string obstacle();

}  // namespace dos::sched_starpu

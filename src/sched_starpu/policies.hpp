// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sched_starpu/scheduler_settings.hpp"
#include "sched_starpu/step_report.hpp"

struct starpu_sched_policy;

namespace dos::sched_starpu {

/// StarPU policies named like those of sched/policy_registry.hpp, `dos` first. They live as long as
/// the program.
std::vector<starpu_sched_policy*> policies();

/// What the policies take that start from now on; without a call settings_from_environment().
void configure(const SchedulerSettings& settings);

/// Some states live on disks, or on devices for good: none stay there by a plan, whatever was
/// configured, and no plan is tried. Of the policy that runs, if any; call before its first task.
void expect_states_elsewhere();

/// The settings in the variables DOS_SCHED_* (docs/scheduler.md), for programs that load the
/// policies as a plug-in. Throws Error naming the variable, also for an unknown one.
SchedulerSettings settings_from_environment();

// Of the policy that runs; empty when none of ours does.

/// Call while no task runs.
UpdatesReport report();
/// One step, counted from 1 since the policy was started, at any time; nothing when it is too long
/// ago or yet to come.
std::optional<StepReport> step_report(Index step);
/// UpdatesReport::obstacle, at any time.
std::string obstacle();
/// Whether the model, gradients and updates take a GPU's memory from each other, so that what is
/// dead had better be dropped (rt::drop_copies()), at any time.
bool is_memory_short();

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sched/plan.hpp"
#include "sched/step_replay.hpp"

/// The update beside forward and backward of GPUs.
namespace dos::planner {

struct Forecast;
struct Request;

/// The bound of a whole step whose forward and backward take a GPU `passes`. Gradients of what the
/// CPU updates leave, whenever that is. Pre: GPUs.
sched::Bound step_bound(sched::Problem problem, units::Seconds passes);

/// What a plan for the end of forward (sched::Problem::forward) is made for, as the scheduler does:
/// forward by depth; empty, and it is for the end of the update, where a GPU has no memory for
/// sched::kUpdatesAtWork updates at forward's peak.
std::vector<units::Seconds> forward_beside(const sched::Problem& problem,
                                           const std::vector<sched::DepthPasses>& depths);

/// Whether updates have something to run beside: GPUs compute forward and backward, with memory for
/// updates meanwhile, which they lack where weights pass; or disks have states, which they read and
/// write beside both.
bool runs_beside(const sched::Problem& problem, const sched::Plan& plan);

/// What the step takes: no less than `least`, its step_bound(). Pre: runs_beside().
units::Seconds step_beside(const sched::Problem& problem, const sched::Plan& plan,
                           const sched::StepPasses& passes, units::Seconds least);

/// By subgroup, whether its update begins with its own gradient where nothing is clipped: all, or
/// where states are on disks those alone
/// (docs/adr/0075-without-clipping-updates-run-beside-backward.md).
std::vector<bool> without_norm(const sched::Problem& problem, const sched::Plan& plan);

/// What dos plans for where no update goes ahead of the norm. Empty for the published code, and
/// without GPUs.
std::vector<units::Seconds> forward_of(const Request& request, const Forecast& result);

/// Sets phases, bound (of GPUs) and duration of the step, played where the update runs beside them;
/// elsewhere one comes after the other. `ahead`: by subgroup, whether its update does not wait for
/// the norm; empty: all wait. `roomy`: the problem whose GPUs no gradients wait on, for the bound.
/// Pre: all else of the forecast is there but its limit.
void play_step(const Request& request, const sched::Problem& roomy, std::vector<bool> ahead,
               Forecast& result);

}  // namespace dos::planner

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sched/policy.hpp"

namespace dos::sched {

/// Updates that keep a GPU and its link at work: one that is computed, one on its way in, two on
/// their way back.
inline constexpr double kUpdatesAtWork = 4;

/// make_plan() where gradients take memory of states (StateMemory::gradients): those of what GPUs
/// update wait there, those of what the CPU updates leave during backward. Where kUpdatesAtWork
/// updates fit beside all gradients, all may stay. Else `dos` has the fastest plan whose GPUs'
/// gradients fit beside its states, and any other policy its own plan. No states stay beside
/// gradients that leave: the runtime gives those that come the memory that was used longest ago.
/// Where weights may pass (StateMemory::passing), plans that take their memory are compared, too,
/// by Plan::cost().
Plan plan_beside_gradients(const std::string& policy, const Problem& problem,
                           const PolicyOptions& options = {});

/// The part of the gradients, 0 to 1, that waits on GPUs with such a plan.
double waiting_gradients(const Problem& problem, const Plan& plan);

/// The problem when this part of the gradients waits on GPUs: memory is what they leave of it.
Problem beside_gradients(Problem problem, double share);

/// The problem as the plan has it: beside the gradients that wait, and without the weights where
/// they pass.
Problem settled(Problem problem, const Plan& plan);

}  // namespace dos::sched

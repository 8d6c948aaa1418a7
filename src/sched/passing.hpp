// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sched/plan.hpp"

/// Weights that pass through a GPU: StateMemory::passing, docs/adr/0056-weights-pass-through.md.
namespace dos::sched {

/// Whether weights of a GPU may pass.
bool may_pass(const Problem& problem);

/// The problem where they do: memory is what there is without them, and nothing passes any more.
Problem with_passing_weights(Problem problem);

/// Sets Plan::overflow and Plan::refetch, when this part of the gradients, 0 to 1, waits on GPUs:
/// at the end of backward weights and gradients lack memory, in the update weights, gradients and
/// the window do. The larger of both comes once more, and pushes out as much, over the link one
/// after the other. Of the GPU that waits longest.
void count_refetch(const Problem& problem, double waiting, Plan& plan);

}  // namespace dos::sched

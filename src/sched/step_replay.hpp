// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "sched/plan.hpp"

namespace dos::sched {

/// What each GPU computes at a depth of the model.
struct DepthPasses {
  units::Seconds forward;
  units::Seconds backward;
};

/// Forward and backward of a step, and which updates do not wait for its norm.
struct StepPasses {
  std::vector<DepthPasses> depths;  ///< that of subgroups is a place in it
  std::vector<bool> ahead;          ///< by subgroup; empty: all wait for the norm
  bool backward_is_over = false;    ///< and the norm known: the step is the update and forward
};

/// What a step takes from the beginning of backward to the end of the next forward, as replay() has
/// it beside both passes: an update begins when backward of its depth has ended, or all of it where
/// it waits for the norm; forward of a depth when its working parameters are there. Of what may
/// begin the first subgroup does; on a GPU those go before it that have memory for which others
/// wait. A GPU takes an update before what it computes besides, and gradients leave it as soon as
/// they are there. Without a GPU the workers compute that update nothing.
///
/// Host memory for what lives behind it is full when backward begins: of the first subgroups, or of
/// the last ones where none waits for the norm. Copies of states may end later, so no step is
/// shorter than what a tier that only keeps states has to do. Pre: those of Execution that are this
/// project's.
units::Seconds replay_step(const Problem& problem, const Plan& plan, const StepPasses& passes);

/// What plans of a problem are compared by: when its forward ends that begins beside the update,
/// and a little of when the update does; the update's end alone where there is no forward, or
/// states come from tiers behind host memory, which then bind. Nothing, at less cost, when it is
/// later than `limit`.
std::optional<units::Seconds> planned_end_by(const Problem& problem, const Plan& plan,
                                             units::Seconds limit);
units::Seconds planned_end(const Problem& problem, const Plan& plan);

}  // namespace dos::sched

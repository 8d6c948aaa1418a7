// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sched/plan.hpp"
#include "sched/step_replay.hpp"

/// Updates that go ahead of the clip factor: optim.speculate, docs/speculation.md.
namespace dos::planner {

struct Request;
struct Forecast;

/// What they come to. None goes ahead where `subgroups` is 0.
struct AheadForecast {
  Index subgroups = 0;
  units::Params params{0};
  units::Bytes banks{0};      ///< host memory of a rank for their second banks
  units::Seconds waiting{0};  ///< a step, if all waited for the norm and had one bank
  units::Seconds step{0};
  /// Of the step: what each resource has to do in it, with updates dealt so that it is least. Of
  /// GPUs alone.
  sched::Bound bound{};

  /// Of `waiting`; negative where second banks cost more.
  [[nodiscard]] units::Seconds hidden() const { return waiting - step; }
};

/// The bound of a whole step whose forward and backward take a GPU `passes`. Gradients of what the
/// CPU updates leave, whenever that is. Pre: GPUs.
sched::Bound step_bound(sched::Problem problem, units::Seconds passes);

/// Whether updates ahead have something to run beside: GPUs compute forward and backward, with
/// memory for updates meanwhile, which they lack where weights pass; and no disk has states, which
/// take longest and wait.
bool are_hidden(const sched::Problem& problem, const sched::Plan& plan);

/// What the step takes with these updates ahead: no less than `bound`, its step_bound(). Pre:
/// are_hidden().
units::Seconds step_beside(const sched::Problem& problem, const sched::Plan& plan,
                           const sched::StepPasses& passes, const sched::Bound& bound);

/// Whether some may go ahead: as train_gpt has it, before memory is looked at. Throws Error where
/// they are asked for and cannot.
bool may_go_ahead(const Request& request);

/// Has as many go ahead as train_gpt would (fit::choose_ahead()), and counts their banks and the
/// step. Changes nothing where none does. Unless are_hidden() the step stays what it is. `waiting`:
/// the same where none does; `roomy`: the problem whose GPUs no gradients wait on, for the bound.
/// Pre: all else of the forecast is there but its limit.
void let_go_ahead(const Request& request, const Forecast& waiting, const sched::Problem& roomy,
                  Forecast& result);

}  // namespace dos::planner

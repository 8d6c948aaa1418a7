// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/planning.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "sched/bound.hpp"
#include "sched/gradients.hpp"
#include "sched/replay.hpp"
#include "sched/step_replay.hpp"
#include "sched/transition.hpp"
#include "sched_starpu/worker_place.hpp"

namespace dos::sched_starpu {
namespace {

std::vector<units::Seconds> last_ends(const sched::Problem& problem, const sched::Plan& plan) {
  std::vector<units::Seconds> ends(static_cast<std::size_t>(problem.gpus() + 1));
  for (const sched::Activity& each : sched::replay(problem, plan, /*record=*/true).activities) {
    if (each.work != sched::Work::kCpuUpdate && each.work != sched::Work::kGpuUpdate) continue;
    units::Seconds& end = ends[Device{.gpu = each.tier}.number()];
    end = std::max(end, each.end);
  }
  return ends;
}

}  // namespace

units::Seconds time_to_move(const sched::Problem& problem, const sched::Plan& now,
                            const sched::Plan& next) {
  units::Seconds longest{0};
  for (Index gpu = 0; gpu < problem.gpus(); ++gpu) {
    units::Bytes in{0};
    units::Bytes out{0};
    for (std::size_t i = 0; i < problem.subgroups.size(); ++i) {
      const bool is_here = place_of(now.assignments[i]).stays_on() == gpu;
      const bool will_be = place_of(next.assignments[i]).stays_on() == gpu;
      if (is_here != will_be)
        (will_be ? in : out) += params_of(problem.subgroups[i].params) * problem.cost.state;
    }
    const perfmodels::GpuRates& rates = problem.rates.gpus[static_cast<std::size_t>(gpu)];
    longest = std::max({longest, in / rates.h2d, out / rates.d2h});
  }
  return longest;
}

namespace {

bool is_worth_changing(const sched::Problem& problem, const sched::Plan& current,
                       const sched::Plan& next, const Tuning& tuning) {
  const units::Seconds now = sched::planned_end(problem, current) + current.refetch;
  const units::Seconds gain = now - next.cost();
  return gain > now * tuning.gain &&
         !(gain * tuning.steps_to_gain < time_to_move(problem, current, next));
}

/// A plan that is kept, with what the rates that hold now make of it.
sched::Plan as_of_now(const sched::Problem& problem, sched::Plan plan,
                      const sched::PolicyOptions& options) {
  plan.bound = sched::lower_bound(
      problem, {.half_duplex = plan.execution.half_duplex, .residents = options.residents});
  plan.time = sched::replay(problem, plan).update_end;
  plan.end = sched::planned_end(problem, plan);
  return plan;
}

}  // namespace

PlanOutcome carry_out(PlanOrder order) {
  PlanOutcome outcome{.order = std::move(order), .plan = {}, .obstacle = {}};
  const PlanOrder& given = outcome.order;
  sched::Problem at_home = given.problem;
  at_home.homes.clear();
  if (given.replans || !given.current) {
    try {
      outcome.plan = sched::plan_beside_gradients(given.policy, at_home, given.options);
    } catch (const Error& error) {
      outcome.obstacle = error.what();
      return outcome;
    }
  }
  const bool is_taken =
      outcome.plan &&
      (!given.current || is_worth_changing(at_home, *given.current, *outcome.plan, given.tuning));
  if (!is_taken) outcome.plan = given.current;
  outcome.is_short = sched::waiting_gradients(at_home, *outcome.plan) < 1 ||
                     outcome.plan->overflow > units::Bytes(0);
  at_home = sched::settled(std::move(at_home), *outcome.plan);
  outcome.order.problem = sched::settled(std::move(outcome.order.problem), *outcome.plan);
  if (!is_taken) outcome.plan = as_of_now(at_home, *given.current, given.options);
  outcome.ends = last_ends(at_home, *outcome.plan);
  outcome.step = sched::step_towards(given.problem, *outcome.plan);
  outcome.step_ends = last_ends(given.problem, *outcome.step);
  return outcome;
}

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/planning.hpp"

#include <utility>

#include "base/error.hpp"
#include "sched/replay.hpp"

namespace dos::sched_starpu {
namespace {

constexpr double kGainWorthChanging = 0.03;

}  // namespace

PlanOutcome carry_out(PlanOrder order) {
  PlanOutcome outcome{.order = std::move(order), .plan = {}, .obstacle = {}};
  const PlanOrder& given = outcome.order;
  try {
    outcome.plan = sched::make_plan(given.policy, given.problem, given.options);
  } catch (const Error& error) {
    outcome.obstacle = error.what();
    return outcome;
  }
  if (!given.current) return outcome;
  const double now = sched::replay(given.problem, *given.current).update_end.value();
  if (outcome.plan->time.value() > (1 - kGainWorthChanging) * now) outcome.plan = given.current;
  return outcome;
}

}  // namespace dos::sched_starpu

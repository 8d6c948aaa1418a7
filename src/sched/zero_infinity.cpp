// SPDX-License-Identifier: Apache-2.0
#include "sched/zero_infinity.hpp"

#include "sched/interleave.hpp"

namespace dos::sched {
namespace {

/// One that is read, one that is updated, one that is written.
constexpr Index kOnTheWay = 3;

}  // namespace

Plan plan_zero_infinity(const Problem& problem, const PolicyOptions& options) {
  Plan plan = all_cpu(problem);
  plan.reason = "policy: every state on the first disk, every update on the CPU";
  plan.execution.cpu_team = options.published;
  plan.execution.on_the_way = kOnTheWay;
  if (problem.rates.tiers.empty()) return plan;
  for (Assignment& each : plan.assignments) each.home = problem.gpus();
  return plan;
}

}  // namespace dos::sched

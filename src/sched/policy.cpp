// SPDX-License-Identifier: Apache-2.0
#include "sched/policy.hpp"

#include <cmath>

#include "base/error.hpp"
#include "sched/homes.hpp"
#include "sched/policy_registry.hpp"
#include "sched/replay.hpp"

namespace dos::sched {

void PolicyOptions::validate() const {
  expect(!stride || *stride >= 1, "sched.stride = {} must be at least 1", stride.value_or(0));
  expect(!share || (std::isfinite(*share) && *share >= 0 && *share <= 1),
         "sched.share = {:g} must lie between 0 and 1", share.value_or(0));
  expect(!window || *window >= 1, "sched.window = {} must be at least 1", window.value_or(0));
  expect(!stride || !share, "set sched.stride or sched.share, not both: share = 1 / stride");
}

Plan make_plan(const std::string& policy, const Problem& problem, const PolicyOptions& options) {
  const Policy& entry = find_policy(policy);
  options.validate();
  problem.validate();
  for (const StateMemory& gpu : problem.memory)
    require(gpu.gradients.value() == 0, "gradients taken off the memory of states");
  expect(!options.published || problem.rates.published.has_value(),
         "sched.published=true: this machine file has no [published] rates");
  expect(!options.published || problem.gpus() == 1,
         "sched.published=true: the published code drives one GPU a rank, this rank has {}: use as "
         "many ranks as GPUs",
         problem.gpus());
  if (!problem.homes.empty()) {
    Problem steady = problem;
    steady.homes.clear();
    return make_plan(policy, steady, options);
  }
  Plan plan = entry.plan(problem, options);
  plan.policy = policy;
  plan.execution.half_duplex = plan.execution.half_duplex || options.half_duplex;
  if (!entry.chooses_homes) Homes(problem).choose(plan);
  plan.bound = lower_bound(
      problem, {.half_duplex = plan.execution.half_duplex, .residents = options.residents});
  plan.time = replay(problem, plan).update_end;
  return plan;
}

}  // namespace dos::sched

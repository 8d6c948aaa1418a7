// SPDX-License-Identifier: Apache-2.0
#include "sched/policy.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "sched/homes.hpp"
#include "sched/policy_registry.hpp"
#include "sched/replay.hpp"
#include "sched/step_replay.hpp"

namespace dos::sched {

void PolicyOptions::validate() const {
  expect(!stride || *stride >= 1, "sched.stride = {} must be at least 1", stride.value_or(0));
  expect(!share || (std::isfinite(*share) && *share >= 0 && *share <= 1),
         "sched.share = {:g} must lie between 0 and 1", share.value_or(0));
  expect(!window || *window >= 1, "sched.window = {} must be at least 1", window.value_or(0));
  expect(!stride || !share, "set sched.stride or sched.share, not both: share = 1 / stride");
}

namespace {

Plan plan_of(const Policy& policy, const Problem& problem, const PolicyOptions& options) {
  Plan plan = policy.plan(problem, options);
  plan.execution.half_duplex = plan.execution.half_duplex || options.half_duplex;
  if (!policy.chooses_homes) Homes(problem).choose(plan);
  return plan;
}

/// The problem without what GPUs keep for good, and without the memory that this takes.
Problem without_kept(const Problem& problem) {
  Problem rest = problem;
  std::erase_if(rest.subgroups, [](const Subgroup& each) { return each.kept_on >= 0; });
  for (Index i = 0; i < std::ssize(problem.subgroups); ++i) {
    const Index gpu = problem.subgroups[static_cast<std::size_t>(i)].kept_on;
    if (gpu < 0) continue;
    StateMemory& memory = rest.memory[static_cast<std::size_t>(gpu)];
    for (units::Bytes* free : {&memory.update, &memory.resident})
      *free = std::max(units::Bytes(0), *free - problem.held_bytes(i));
  }
  return rest;
}

/// What the policy plans for what no GPU keeps, and residents for what one does.
Plan beside_kept(const Policy& policy, const Problem& problem, PolicyOptions options) {
  if (!problem.has_kept()) return plan_of(policy, problem, options);
  const Problem rest = without_kept(problem);
  Plan plan;
  if (rest.subgroups.empty()) {
    plan.window.resize(problem.memory.size());
    plan.window_memory.resize(problem.memory.size());
    plan.reason = "GPUs keep all states";
  } else {
    // A share is one of all parameters.
    if (options.share)
      options.share = std::max(0.0, 1 - (1 - *options.share) * (problem.total() / rest.total()));
    plan = plan_of(policy, rest, options);
  }
  const std::vector<Assignment> free = std::exchange(plan.assignments, {});
  for (auto next = free.begin(); const Subgroup& each : problem.subgroups)
    plan.assignments.push_back(each.kept_on >= 0 ? resident_on(each.kept_on) : *next++);
  return plan;
}

}  // namespace

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
  Plan plan = beside_kept(entry, problem, options);
  plan.policy = policy;
  plan.bound = lower_bound(problem, {.half_duplex = plan.execution.half_duplex,
                                     .residents = options.residents || problem.has_kept()});
  plan.time = replay(problem, plan).update_end;
  plan.end = planned_end(problem, plan);
  return plan;
}

}  // namespace dos::sched

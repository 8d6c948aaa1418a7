// SPDX-License-Identifier: Apache-2.0
#include "sched/transition.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.hpp"
#include "sched/problems.hpp"
#include "sched/registry.hpp"
#include "sched/replay.hpp"

namespace dos::sched {
namespace {

/// Two GPUs with room for three quarters of the states, behind links of `link` GB/s.
Problem two_gpus(double link) {
  Problem problem = test::simple_problem(/*count=*/400, /*cpu=*/4, link);
  for (Subgroup& each : problem.subgroups) each.params /= 10;
  problem.rates.gpus.push_back(problem.rates.gpus.front());
  problem.rates.cpu_workers = 4;
  problem.rates.cpu_worker = problem.rates.cpu_update / 4.0;
  problem.rates.allocation = units::Seconds(0);
  const units::Bytes room = problem.total() * problem.cost.held() * 0.375;
  problem.memory.assign(2, {.update = room, .resident = room});
  problem.homes.assign(problem.subgroups.size(), -1);
  return problem;
}

/// Where the states are after a step.
std::vector<Index> homes_after(const Plan& plan) {
  std::vector<Index> homes;
  for (const Assignment& each : plan.assignments)
    homes.push_back(each.placement == Placement::kResident ? each.gpu : -1);
  return homes;
}

Index differences(const std::vector<Index>& a, const std::vector<Index>& b) {
  Index count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

double best_baseline(const Problem& problem) {
  double best = std::numeric_limits<double>::infinity();
  for (const Policy& policy : policies()) {
    if (policy.adapts) continue;
    try {
      best = std::min(best, replay(problem, policy.plan(problem, {})).update_end.value());
    } catch (const Error&) {
      // It cannot place this problem.
    }
  }
  return best;
}

TEST(Transition, WhereAllAreAtHomeTheTargetIsTheStep) {
  Problem problem = two_gpus(50);
  const Plan target = make_plan("dos", problem);
  ASSERT_GT(target.share(problem, Placement::kResident), 0.5);
  problem.homes = homes_after(target);
  EXPECT_EQ(homes_after(step_towards(problem, target, {})), problem.homes);
  EXPECT_EQ(step_towards(problem, target, {}).time.value(), target.time.value());
  problem.homes.clear();
  EXPECT_EQ(step_towards(problem, target, {}).time.value(), target.time.value());
}

TEST(Transition, ResidentsComeInOneStepWhereThatIsNoSlowerThanAnotherPolicy) {
  const Problem problem = two_gpus(50);
  const Plan target = make_plan("dos", problem);
  const Plan step = step_towards(problem, target, {});
  EXPECT_EQ(homes_after(step), homes_after(target));
  EXPECT_LE(step.time.value(), 1.02 * best_baseline(problem));
  // What comes takes at least its copies.
  const double in = target.share(problem, Placement::kResident) * problem.total().value() * 12 / 2;
  EXPECT_GE(step.time.value(), in / 50e9);
}

// All at once would take 180 s over links of 1 GB/s, and the CPU needs 10 s for a step: they come
// bit by bit, beside its updates.
TEST(Transition, OverSlowLinksResidentsComeBesideTheCpusUpdates) {
  Problem problem = two_gpus(1);
  const double baseline = best_baseline(problem);
  const Plan target = make_plan("dos", problem);
  Index steps = 0;
  for (; homes_after(target) != problem.homes; ++steps) {
    ASSERT_LT(steps, 40);
    const Plan step = step_towards(problem, target, {});
    EXPECT_LE(step.time.value(), 1.02 * baseline) << steps;
    const std::vector<Index> homes = homes_after(step);
    EXPECT_LT(differences(homes, homes_after(target)),
              differences(problem.homes, homes_after(target)));
    problem.homes = homes;
  }
  EXPECT_GT(steps, 3);
}

TEST(Transition, ABaselineKeepsToItsPlan) {
  const Problem problem = two_gpus(1);
  const Plan target = make_plan("gpu-only", problem);
  EXPECT_EQ(homes_after(step_towards(problem, target, {})), homes_after(target));
}

TEST(Transition, WhatLeavesAGpuTakesItsWayHome) {
  Problem problem = two_gpus(50);
  const Plan target = make_plan("zero-offload", problem);
  const double at_home = step_towards(problem, target, {}).time.value();
  for (Index& home : problem.homes) home = 0;
  const Plan step = step_towards(problem, target, {});
  EXPECT_GE(step.time.value(), at_home);
  EXPECT_DOUBLE_EQ(replay(problem, step).d2h_bytes[0].value(),
                   problem.total().value() * problem.cost.state.value());
}

// Whatever the machine, of equal GPUs: it ends, no step is slower than the best other policy from
// states in host memory, but by what one more resident costs, and memory is kept.
TEST(Transition, EveryRandomMachineSettles) {
  const Philox random(11);
  for (std::uint64_t stream = 0; stream < 150; ++stream) {
    SCOPED_TRACE(stream);
    Problem problem = test::random_problem(random, stream);
    if (problem.gpus() == 0) continue;
    problem.homes.assign(problem.subgroups.size(), -1);
    for (perfmodels::GpuRates& gpu : problem.rates.gpus) gpu = problem.rates.gpus.front();
    for (StateMemory& memory : problem.memory) memory = problem.memory.front();
    // These steps are as short as a few allocations.
    problem.rates.allocation = units::Seconds(0);
    const double baseline = best_baseline(problem);
    const Plan target = make_plan("dos", problem);
    Index steps = 0;
    while (homes_after(target) != problem.homes) {
      ASSERT_LE(++steps, std::ssize(problem.subgroups));
      const Plan step = step_towards(problem, target, {});
      const Replay played = replay(problem, step);
      if (steps == 1 && differences(homes_after(step), problem.homes) > 1) {
        EXPECT_LE(step.time.value(), 1.02 * baseline);
      }
      for (std::size_t g = 0; g < problem.memory.size(); ++g)
        EXPECT_LE(played.memory_peak[g].value(), problem.memory[g].update.value() * (1 + 1e-9));
      const std::vector<Index> homes = homes_after(step);
      ASSERT_LT(differences(homes, homes_after(target)),
                differences(problem.homes, homes_after(target)));
      problem.homes = homes;
    }
  }
}

}  // namespace
}  // namespace dos::sched

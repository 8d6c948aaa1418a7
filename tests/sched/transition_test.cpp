// SPDX-License-Identifier: Apache-2.0
#include "sched/transition.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "sanitized.hpp"
#include "sched/interleave.hpp"
#include "sched/policy_registry.hpp"
#include "sched/problems.hpp"
#include "sched/replay.hpp"

namespace dos::sched::transition_test {
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
  for (const Assignment& each : plan.assignments) homes.push_back(each.home);
  return homes;
}

/// Parameters whose states are elsewhere.
Index params_between(const Problem& problem, const std::vector<Index>& a,
                     const std::vector<Index>& b) {
  Index count = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    count += a[i] != b[i] ? problem.subgroups[i].params : 0;
  return count;
}

TEST(Transition, WhereAllAreAtHomeTheTargetIsTheStep) {
  Problem problem = two_gpus(50);
  const Plan target = make_plan("dos", problem);
  ASSERT_GT(target.share(problem, &is_resident), 0.5);
  problem.homes = homes_after(target);
  EXPECT_EQ(homes_after(step_towards(problem, target)), problem.homes);
  EXPECT_EQ(step_towards(problem, target).time.value(), target.time.value());
  problem.homes.clear();
  EXPECT_EQ(step_towards(problem, target).time.value(), target.time.value());
}

TEST(Transition, ResidentsComeInOneStepOverFastLinks) {
  const Problem problem = two_gpus(50);
  const Plan target = make_plan("dos", problem);
  const Plan step = step_towards(problem, target);
  EXPECT_EQ(homes_after(step), homes_after(target));
  // What comes takes at least its copies; the CPU's updates run beside them.
  const double in = target.share(problem, &is_resident) * problem.total().value() * 12 / 2;
  EXPECT_GE(step.time.value(), in / 50e9);
  EXPECT_LE(step.time.value(), 1.02 * replay(problem, target).update_end.value());
}

// The runtime allocates for one subgroup after the other, on any GPU, while the states of those
// before it come: what takes half of the time that copies take delays the first ones alone.
TEST(Transition, MemoryIsAllocatedWhileStatesCome) {
  Problem problem = two_gpus(50);
  for (std::size_t i = 0; i < problem.subgroups.size(); ++i) {
    Index& params = problem.subgroups[i].params;
    params = i / 2 % 2 == 0 ? params * 19 / 10 : params / 10;
  }
  const units::Bytes half = problem.total() * problem.cost.held() / 2.0;
  problem.memory.assign(2, {.update = half * 1.1, .resident = half * 1.1});
  Plan plan = all_cpu(problem);
  for (std::size_t i = 0; i < plan.assignments.size(); ++i)
    plan.assignments[i] = resident_on(static_cast<Index>(i % 2));
  const double without = replay(problem, plan).update_end.value();
  const double allocations = static_cast<double>(std::ssize(problem.subgroups)) *
                             static_cast<double>(problem.cost.state_buffers);
  problem.rates.allocation = units::Seconds(without / 2 / allocations);
  const double first = 2 * without / 2 / static_cast<double>(std::ssize(problem.subgroups));
  EXPECT_GT(replay(problem, plan).update_end.value(), without);
  EXPECT_LE(replay(problem, plan).update_end.value(), without + first);
}

// All at once would take 180 s over links of 1 GB/s, and the CPU needs 10 s for a step: they come
// bit by bit, beside its updates.
TEST(Transition, OverSlowLinksResidentsComeBesideTheCpusUpdates) {
  Problem problem = two_gpus(1);
  const double alone = make_plan("zero-offload", problem).time.value();
  const Plan target = make_plan("dos", problem);
  double total = 0;
  Index steps = 0;
  for (; homes_after(target) != problem.homes; ++steps) {
    ASSERT_LT(steps, 40);
    const Plan step = step_towards(problem, target);
    EXPECT_LE(step.time.value(), 1.5 * alone) << steps;
    total += step.time.value();
    problem.homes = homes_after(step);
  }
  EXPECT_GT(steps, 3);
  problem.homes.assign(problem.homes.size(), -1);
  const double at_once = replay(problem, target).update_end.value();
  EXPECT_LT(total, at_once + static_cast<double>(steps - 1) * target.time.value());
}

TEST(Transition, ABaselineKeepsToItsPlan) {
  const Problem problem = two_gpus(1);
  const Plan target = make_plan("gpu-only", problem);
  EXPECT_EQ(homes_after(step_towards(problem, target)), homes_after(target));
}

TEST(Transition, WhatLeavesAGpuTakesItsWayHome) {
  Problem problem = two_gpus(50);
  const Plan target = make_plan("zero-offload", problem);
  const double at_home = step_towards(problem, target).time.value();
  for (Index& home : problem.homes) home = 0;
  const Plan step = step_towards(problem, target);
  EXPECT_GE(step.time.value(), at_home);
  EXPECT_DOUBLE_EQ(replay(problem, step).links[0].out_bytes.value(),
                   problem.total().value() * problem.cost.state.value());
}

// Whatever the machine: every step brings residents home, keeps to the memory, and loses no more,
// by the share of them that it brings, than bringing all at once.
TEST(Transition, EveryRandomMachineSettles) {
  const Philox random(11);
  for (std::uint64_t stream = 0; stream < test::cases<std::uint64_t>(300); ++stream) {
    SCOPED_TRACE(stream);
    Problem problem = test::random_problem(random, stream);
    if (problem.gpus() == 0) continue;
    problem.homes.assign(problem.subgroups.size(), -1);
    const Plan target = make_plan("dos", problem);
    while (homes_after(target) != problem.homes) {
      const Plan step = step_towards(problem, target);
      const Replay played = replay(problem, step);
      EXPECT_EQ(played.update_end.value(), step.time.value());
      for (std::size_t g = 0; g < problem.memory.size(); ++g)
        EXPECT_LE(played.memory_peak[g].value(), problem.memory[g].update.value() * (1 + 1e-9));
      const std::vector<Index> homes = homes_after(step);
      const auto missing =
          static_cast<double>(params_between(problem, problem.homes, homes_after(target)));
      const auto come = static_cast<double>(params_between(problem, problem.homes, homes));
      ASSERT_GT(come, 0);
      const double lost = (step.time.value() - target.time.value()) * missing / come;
      const double at_once = replay(problem, target).update_end.value() - target.time.value();
      EXPECT_LE(lost, 1.1 * std::max(at_once, 0.01 * target.time.value()) + 1e-12);
      problem.homes = homes;
    }
  }
}

}  // namespace
}  // namespace dos::sched::transition_test

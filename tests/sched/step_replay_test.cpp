// SPDX-License-Identifier: Apache-2.0
// Whole steps small enough to be computed by hand: subgroups of 10^9 parameters, 1 s of the CPU
// each.
#include "sched/step_replay.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.hpp"
#include "problems.hpp"
#include "sched/interleave.hpp"
#include "sched/policy.hpp"
#include "steps.hpp"

namespace dos::sched::step_replay_test {
namespace {

using test::passes;
using test::step;

constexpr double kKernels = 1e-5;

TEST(StepReplay, UpdatesThatWaitComeBehindBackward) {
  const Problem problem = test::simple_problem(3, 1, 12);
  const Plan plan = all_cpu(problem);
  // 3 of backward, 3 of updates; forward of the first two depths runs beside the last updates.
  EXPECT_NEAR(step(problem, plan, passes(3, 1, 1)), 7, 1e-9);
  EXPECT_NEAR(step(problem, plan, passes(3, 2, 1)), 3 + 1 + 6, 1e-9);
}

TEST(StepReplay, UpdatesAheadRunBesideBackward) {
  const Problem problem = test::simple_problem(3, 1, 12);
  const Plan plan = all_cpu(problem);
  const std::vector<bool> all(3, true);
  // The last depth's gradient is there after 1 s; that of the first after 3, its update after 4.
  EXPECT_NEAR(step(problem, plan, passes(3, 1, 1, all)), 4 + 3, 1e-9);
  // Backward is longer than the updates: all but the first depth's are hidden.
  EXPECT_NEAR(step(problem, plan, passes(3, 0.1, 2, all)), 6 + 1 + 0.3, 1e-9);
  EXPECT_NEAR(step(problem, plan, passes(3, 0.1, 2)), 6 + 3 + 0.1, 1e-9);
}

TEST(StepReplay, WhatHasNoSecondBankWaits) {
  const Problem problem = test::simple_problem(3, 1, 12);
  // The last one alone goes ahead; then the first two.
  EXPECT_NEAR(step(problem, all_cpu(problem), passes(3, 0.1, 2, {false, false, true})), 6 + 2 + 0.2,
              1e-9);
}

TEST(StepReplay, TheFirstSubgroupGoesFirst) {
  const Problem problem = test::simple_problem(3, 1, 12);
  // Backward takes no time: forward needs the first, whose gradient came last.
  const std::vector<bool> all(3, true);
  EXPECT_NEAR(step(problem, all_cpu(problem), passes(3, 0, 0, all)), 3, 1e-9);
  // The last one was alone when it began; the first is the next.
  EXPECT_NEAR(step(problem, all_cpu(problem), passes(3, 5, 0, all)), 2 + 15, 1e-9);
}

TEST(StepReplay, GradientsOfTheCpuLeaveDuringBackward) {
  Problem problem = test::simple_problem(2, 1, 2);
  problem.cost.gradient = units::BytesPerParam(2);
  // The last one's gradient takes from 4 to 5; that of the first from 8 to 9, then its update.
  EXPECT_NEAR(step(problem, all_cpu(problem), passes(2, 0, 4, {true, true})), 10, 1e-9);
  // Where both wait, that of the last is there when the norm is.
  EXPECT_NEAR(step(problem, all_cpu(problem), passes(2, 0, 4)), 10, 1e-9);
}

TEST(StepReplay, StatesStreamBesideBackward) {
  const Problem problem = test::simple_problem(2, 1, 12);
  Plan plan = all_cpu(problem);
  for (Assignment& each : plan.assignments) each = streamed_to(0);
  plan.window = {2};
  plan.window_memory = {problem.held_bytes(0) * 2.0};
  // States of the last come from 4 to 5, its kernel waits for the task at work and runs at 8; those
  // of the first come from 8 to 9, where forward may begin: its states go home meanwhile.
  EXPECT_NEAR(step(problem, plan, passes(2, 0.1, 4, {true, true})), 9 + 0.2, kKernels);
  // Where both wait they come from 8 to 10, and forward of the first begins at 9.
  EXPECT_NEAR(step(problem, plan, passes(2, 0.1, 4)), 10 + 0.1, kKernels);
}

TEST(StepReplay, WhatStaysOnAGpuNeedsItsKernelAlone) {
  Problem problem = test::simple_problem(2, 1, 12);
  problem.rates.gpus[0].update = units::gparams_per_second(1);
  Plan plan = all_cpu(problem);
  for (Assignment& each : plan.assignments) each = resident_on(0);
  // A GPU does one thing at a time: what goes ahead takes from backward what it saves behind it.
  EXPECT_NEAR(step(problem, plan, passes(2, 1, 4, {true, true})), 12, kKernels);
  EXPECT_NEAR(step(problem, plan, passes(2, 1, 4)), 12, kKernels);
}

// Whatever the machine, all updates come to their end, and a GPU has its passes to do.
TEST(StepReplay, NoStepIsShorterThanItsPasses) {
  const Philox random(7);
  int planned = 0;
  for (std::uint64_t stream = 0; stream < 200; ++stream) {
    const Problem problem = test::random_problem(random, stream);
    if (problem.gpus() == 0 || problem.cost.host_parameter.value() > 0) continue;
    const Plan plan = make_plan("dos", problem);
    const auto depths = static_cast<std::size_t>(problem.subgroups.back().depth) + 1;
    const double each = plan.time.value() * random.uniform(1, stream) / static_cast<double>(depths);
    std::vector<bool> ahead;
    for (std::size_t i = 0; i < problem.subgroups.size(); ++i)
      ahead.push_back((i + stream) % 3 > 0);
    const double whole = 3 * each * static_cast<double>(depths);
    EXPECT_GE(step(problem, plan, passes(depths, each, 2 * each, ahead)), whole * (1 - 1e-9))
        << stream;
    ++planned;
  }
  EXPECT_GT(planned, 50);
}

Problem with_forward(Problem problem, std::size_t depths, double each) {
  problem.forward.assign(depths, units::Seconds(each));
  return problem;
}

TEST(StepReplay, PlansAreComparedByTheForwardThatBeginsBesideThem) {
  const Problem problem = test::simple_problem(3, 1, 12);
  const Plan plan = all_cpu(problem);
  EXPECT_NEAR(planned_end(problem, plan).value(), 3, 1e-9) << "the update alone";
  // Each second one more may begin; a 64th of the update's end tells equal ones apart.
  for (const auto& [forward, end] : {std::pair{0.1, 3.1}, {1.0, 4.0}, {2.0, 7.0}})
    EXPECT_NEAR(planned_end(with_forward(problem, 3, forward), plan).value(), end + 3.0 / 64, 1e-9);
  const Problem beside = with_forward(problem, 3, 1);
  EXPECT_FALSE(planned_end_by(beside, plan, units::Seconds(4)));
  EXPECT_TRUE(planned_end_by(beside, plan, units::Seconds(4.1)));
}

// 8 workers need 8 s for what the link brings in 2: a forward of 20 s that waited for one of theirs
// near its beginning would end at 27.
TEST(StepReplay, WhatForwardNeedsFirstAGpuUpdates) {
  Problem problem = test::simple_problem(40, 1, 48);
  problem.rates.cpu_workers = 8;
  problem.rates.cpu_worker = problem.rates.cpu_update / 8.0;
  const Plan alone = make_plan("dos", problem);
  problem = with_forward(problem, 40, 0.5);
  EXPECT_GT(planned_end(problem, alone).value(), 26);
  const Plan plan = make_plan("dos", problem);
  EXPECT_LT(plan.end.value(), 21);
  EXPECT_FALSE(is_on_cpu(plan.assignments.front()));
}

TEST(StepReplay, APlanForForwardIsNoWorseForIt) {
  const Philox random(11);
  int planned = 0;
  for (std::uint64_t stream = 0; stream < 200; ++stream) {
    Problem problem = test::random_problem(random, stream);
    if (problem.gpus() == 0) continue;
    const Plan alone = make_plan("dos", problem);
    const auto depths = static_cast<std::size_t>(problem.subgroups.back().depth) + 1;
    problem = with_forward(
        problem, depths,
        alone.time.value() * 4 * random.uniform(1, stream) / static_cast<double>(depths));
    EXPECT_LE(make_plan("dos", problem).end.value(), planned_end(problem, alone).value() * 1.001)
        << stream;
    ++planned;
  }
  EXPECT_GT(planned, 50);
}

}  // namespace
}  // namespace dos::sched::step_replay_test

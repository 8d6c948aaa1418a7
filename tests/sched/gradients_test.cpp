// SPDX-License-Identifier: Apache-2.0
#include "sched/gradients.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "problems.hpp"
#include "sanitized.hpp"

namespace dos::sched::gradients_test {
namespace {

constexpr double kGradientBytes = 2;

/// 20 subgroups of 10^9 parameters, whose gradients take 40 GB; the GPU could update all.
Problem problem(double gigabytes) {
  Problem result = test::simple_problem(20, 1, 100);
  result.memory = {{.update = units::gigabytes(gigabytes),
                    .resident = units::gigabytes(gigabytes),
                    .gradients = units::gigabytes(40)}};
  return result;
}

/// What a GPU holds with the plan: residents, the window, and the gradients that wait.
units::Bytes held(const Problem& problem, const Plan& plan, Index gpu) {
  const auto place = static_cast<std::size_t>(gpu);
  units::Bytes sum = plan.window_memory[place] +
                     problem.memory[place].gradients * waiting_gradients(problem, plan);
  for (std::size_t i = 0; i < plan.assignments.size(); ++i)
    if (plan.assignments[i].home == gpu) sum += problem.held_bytes(static_cast<Index>(i));
  return sum;
}

bool same(const Plan& a, const Plan& b) {
  const auto equal = [](const Assignment& x, const Assignment& y) {
    return x.home == y.home && x.device == y.device;
  };
  return std::ranges::equal(a.assignments, b.assignments, equal) && a.window == b.window;
}

TEST(Gradients, AllStayWhereUpdatesHaveRoomBesideThem) {
  const Problem roomy = problem(40 + 4 * 12);
  const Plan plan = plan_beside_gradients("dos", roomy);
  EXPECT_EQ(waiting_gradients(roomy, plan), 1);
  EXPECT_TRUE(same(plan, make_plan("dos", beside_gradients(roomy, 1))));
  // None take memory.
  const Problem without = test::simple_problem(20, 1, 100);
  EXPECT_TRUE(same(plan_beside_gradients("dos", without), make_plan("dos", without)));
}

TEST(Gradients, TakeTheirPartOfTheMemory) {
  const Problem beside = beside_gradients(problem(100), 0.5);
  EXPECT_EQ(beside.memory.front().update, units::gigabytes(80));
  EXPECT_EQ(beside.memory.front().resident, units::gigabytes(80));
  EXPECT_EQ(beside.memory.front().gradients, units::Bytes(0));
  EXPECT_EQ(beside_gradients(problem(10), 0.5).memory.front().update, units::Bytes(0));
}

TEST(Gradients, OfTheCpusUpdatesLeaveRoomForTheGpus) {
  // Beside all gradients nothing fits; beside none seven updates.
  const Problem tight = problem(36);
  EXPECT_EQ(make_plan("dos", beside_gradients(tight, 1)).gpu_share(tight), 0);
  const Plan plan = plan_beside_gradients("dos", tight);
  EXPECT_GT(plan.gpu_share(tight), 0.4);
  EXPECT_LE(held(tight, plan, 0), units::gigabytes(36));
  EXPECT_NE(plan.reason.find("% of the gradients beside their states"), std::string::npos)
      << plan.reason;
}

TEST(Gradients, KeepAPolicyThatChoosesNoShareFromWhatDoesNotFit) {
  EXPECT_THROW(plan_beside_gradients("gpu-only", problem(36)), Error);
  EXPECT_EQ(plan_beside_gradients("zero-offload", problem(36)).gpu_share(problem(36)), 0);
  const Plan half = plan_beside_gradients("dos-stride", problem(36), {.stride = 2});
  EXPECT_NEAR(half.gpu_share(problem(36)), 0.5, 0.03);
  EXPECT_LE(held(problem(36), half, 0), units::gigabytes(36));
  const Plan asked = plan_beside_gradients("dos", problem(36), {.share = 0.3});
  EXPECT_NEAR(asked.gpu_share(problem(36)), 0.3, 0.03);
}

TEST(Gradients, AreFewerWithLessMemoryAndTheUpdateSlower) {
  units::Seconds before{0};
  for (double gigabytes = 90; gigabytes >= 0; gigabytes -= 2) {
    const Problem given = problem(gigabytes);
    const Plan plan = plan_beside_gradients("dos", given);
    EXPECT_GE(plan.time, before * (1 - 1e-9)) << gigabytes;
    // Room for one update is room for a twentieth of the gradients less.
    if (gigabytes >= 14) {
      EXPECT_GT(plan.gpu_share(given), 0) << gigabytes;
    }
    EXPECT_LE(held(given, plan, 0), units::gigabytes(gigabytes) + units::Bytes(1)) << gigabytes;
    before = plan.time;
  }
}

// On any machine and model: what is planned fits, and nothing that is asked of all is faster.
TEST(Gradients, LeaveDosTheFastestOfWhatFits) {
  const Philox random(31);
  Index limited = 0;
  for (std::uint64_t i = 0; i < test::cases(std::uint64_t{400}); ++i) {
    Problem given = test::random_problem(random, i);
    if (given.gpus() == 0 || given.cost.host_gradient.value() > 0) continue;
    const units::Bytes all = given.total() * units::BytesPerParam(kGradientBytes);
    for (StateMemory& gpu : given.memory) gpu.gradients = all / static_cast<double>(given.gpus());
    SCOPED_TRACE(i);
    const Plan plan = plan_beside_gradients("dos", given);
    const double waiting = waiting_gradients(given, plan);
    limited += waiting < 1 ? 1 : 0;
    for (Index gpu = 0; waiting < 1 && gpu < given.gpus(); ++gpu)
      EXPECT_LE(held(given, plan, gpu).value(),
                given.memory[static_cast<std::size_t>(gpu)].update.value() * (1 + 1e-9));
    EXPECT_LE(plan.time, make_plan("zero-offload", beside_gradients(given, 1)).time * (1 + 1e-9));
  }
  EXPECT_GT(limited, test::cases(50));
}

}  // namespace
}  // namespace dos::sched::gradients_test

// SPDX-License-Identifier: Apache-2.0
#include "sched/passing.hpp"

#include <gtest/gtest.h>

#include "problems.hpp"
#include "sanitized.hpp"
#include "sched/gradients.hpp"

namespace dos::sched::passing_test {
namespace {

constexpr double kWeights = 40;  // GB

/// 20 subgroups of 10^9 parameters, with 40 GB of weights and as much of gradients, on a GPU that
/// has `gigabytes` for these and the updates.
Problem problem(double gigabytes) {
  Problem result = test::simple_problem(20, 1, 100);
  const units::Bytes all = units::gigabytes(gigabytes);
  const units::Bytes beside = std::max(units::Bytes(0), all - units::gigabytes(kWeights));
  result.memory = {
      {.update = beside,
       .resident = beside,
       .gradients = units::gigabytes(40),
       .passing = {.bytes = units::gigabytes(kWeights), .update = all, .resident = all}}};
  return result;
}

/// The same where weights have to stay.
Problem staying(Problem problem) {
  for (StateMemory& gpu : problem.memory) gpu.passing = {};
  return problem;
}

TEST(Passing, CountsWhatHasNoPlaceOnceInAndOnceOut) {
  const Problem tight = problem(60);
  Plan plan;
  plan.window_memory = {units::gigabytes(0)};
  // 40 GB and three quarters of 40 on 60 GB, over 100 GB/s each way.
  count_refetch(tight, 0.75, plan);
  EXPECT_DOUBLE_EQ(plan.overflow.value(), 10e9);
  EXPECT_DOUBLE_EQ(plan.refetch.value(), 0.2);
  plan.window_memory = {units::gigabytes(12)};
  count_refetch(tight, 0.75, plan);
  EXPECT_DOUBLE_EQ(plan.overflow.value(), 22e9);
  count_refetch(tight, 0.1, plan);
  EXPECT_EQ(plan.overflow, units::Bytes(0));
  EXPECT_EQ(plan.refetch, units::Seconds(0));
  count_refetch(staying(tight), 1, plan);
  EXPECT_EQ(plan.overflow, units::Bytes(0));
}

TEST(Passing, LeavesTheMemoryOfWeightsToUpdates) {
  EXPECT_TRUE(may_pass(problem(60)));
  EXPECT_FALSE(may_pass(staying(problem(60))));
  const Problem roomy = with_passing_weights(problem(60));
  EXPECT_EQ(roomy.memory.front().update, units::gigabytes(60));
  EXPECT_EQ(roomy.memory.front().resident, units::gigabytes(60));
  EXPECT_FALSE(may_pass(roomy));
}

TEST(Passing, IsWhatIsPlannedWhereUpdatesOnTheGpuSaveMore) {
  // No room beside the weights, or not even for them.
  for (const double gigabytes : {30.0, 40.0, 50.0}) {
    const Problem tight = problem(gigabytes);
    const Plan stay = plan_beside_gradients("dos", staying(tight));
    EXPECT_EQ(stay.gpu_share(tight), 0) << gigabytes;
    const Plan plan = plan_beside_gradients("dos", tight);
    EXPECT_GT(plan.gpu_share(tight), 0.4) << gigabytes;
    EXPECT_GT(plan.overflow, units::Bytes(0)) << gigabytes;
    EXPECT_LT(plan.cost(), stay.time * 0.8) << gigabytes;
    EXPECT_EQ(plan.share(tight, &is_resident), 0) << gigabytes;
    const Problem left = settled(tight, plan);
    EXPECT_NEAR(left.memory.front().update.value(), (gigabytes - 40 * plan.gpu_share(tight)) * 1e9,
                1);
    EXPECT_LE(plan.window_memory.front(), left.memory.front().update);
  }
}

TEST(Passing, IsNotPlannedWhereAllHasItsPlace) {
  const Problem roomy = problem(40 + 40 + 4 * 12);
  const Plan plan = plan_beside_gradients("dos", roomy);
  EXPECT_EQ(plan.overflow, units::Bytes(0));
  EXPECT_EQ(settled(roomy, plan).memory.front().update, units::gigabytes(48));
  EXPECT_EQ(waiting_gradients(roomy, plan), 1);
}

TEST(Passing, CostsMoreWithLessMemory) {
  units::Seconds before{0};
  for (double gigabytes = 130; gigabytes >= 0; gigabytes -= 2) {
    const Problem given = problem(gigabytes);
    const Plan plan = plan_beside_gradients("dos", given);
    // One subgroup of twenty more or less on the GPU.
    EXPECT_GE(plan.cost(), before * 0.95) << gigabytes;
    EXPECT_LE(plan.time, make_plan("zero-offload", beside_gradients(given, 1)).time * (1 + 1e-9));
    before = plan.cost();
  }
}

TEST(Passing, IsNeverDearerThanThatWeightsStay) {
  const Philox random(57);
  Index passing = 0;
  for (std::uint64_t i = 0; i < test::cases(std::uint64_t{200}); ++i) {
    Problem given = test::random_problem(random, i);
    if (given.gpus() == 0 || given.cost.host_gradient.value() > 0) continue;
    const units::Bytes each =
        given.total() * units::BytesPerParam(2) / static_cast<double>(given.gpus());
    for (StateMemory& gpu : given.memory) {
      gpu.gradients = each;
      gpu.passing = {.bytes = each, .update = gpu.update + each, .resident = gpu.resident + each};
    }
    SCOPED_TRACE(i);
    const Plan plan = plan_beside_gradients("dos", given);
    passing += plan.overflow > units::Bytes(0) ? 1 : 0;
    EXPECT_LE(plan.cost(), plan_beside_gradients("dos", staying(given)).cost() * (1 + 1e-9));
    const Problem left = settled(given, plan);
    for (std::size_t gpu = 0; gpu < left.memory.size(); ++gpu)
      EXPECT_LE(plan.window_memory[gpu].value(), left.memory[gpu].update.value() * (1 + 1e-9) + 1);
  }
  EXPECT_GT(passing, test::cases(20));
}

}  // namespace
}  // namespace dos::sched::passing_test

// SPDX-License-Identifier: Apache-2.0
// Whole steps with states behind host memory, and on nodes without a GPU: small ones by hand,
// subgroups of 10^9 parameters; random ones against what must always hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "sched/interleave.hpp"
#include "sched/policy.hpp"
#include "sched/step_replay.hpp"
#include "steps.hpp"
#include "tiers.hpp"

namespace dos::sched::step_tiers_test {
namespace {

using test::passes;
using test::step;
using test::with_disk;
using test::without_gpu;

/// All on the disk, updated by the CPU.
Plan all_on_disk(const Problem& problem) {
  Plan plan = all_cpu(problem);
  for (Assignment& each : plan.assignments) each = on_cpu(problem.gpus());
  deal_weights(problem, plan);
  return plan;
}

TEST(StepTiers, WorkersThatUpdateNothingCompute) {
  Problem problem = without_gpu(test::simple_problem(3, 1, 12));
  // One worker: one after the other, whatever waits for what.
  EXPECT_NEAR(step(problem, all_cpu(problem), passes(3, 1, 1)), 3 + 3 + 3, 1e-9);
  EXPECT_NEAR(step(problem, all_cpu(problem), passes(3, 1, 1, {true, true, true})), 9, 1e-9);
  // Two, which the update of the last depth, a second of one of them, leaves half of: the first of
  // backward, which takes 1 s of both, ends with it at 3; then two updates at once, and forward.
  problem.rates.cpu_workers = 2;
  problem.rates.cpu_worker = units::gparams_per_second(1);
  problem.rates.cpu_update = units::gparams_per_second(2);
  EXPECT_NEAR(step(problem, all_cpu(problem), passes(3, 1, 1, {false, false, true})), 3.5 + 1 + 3,
              1e-9);
}

TEST(StepTiers, SlotsAreFullWhenBackwardBegins) {
  const Problem problem = with_disk(2, /*cpu=*/1, /*read=*/6, /*write=*/4, /*in_host=*/1);
  const Plan plan = all_on_disk(problem);
  // The first is there: updated from 8 to 9, written until 12; the second is read until 14.
  EXPECT_NEAR(step(problem, plan, passes(2, 0.1, 4)), 15.1, 1e-9);
}

TEST(StepTiers, SlotsFollowGradientsWhereNoneWaitsForTheNorm) {
  const Problem problem = with_disk(2, /*cpu=*/1, /*read=*/6, /*write=*/4, /*in_host=*/1);
  const Plan plan = all_on_disk(problem);
  // The last is there: updated from 4 to 5, written until 8; the first is read until 10.
  EXPECT_NEAR(step(problem, plan, passes(2, 0.1, 4, {true, true})), 11.2, 1e-9);
  // Of those that wait for a slot the one whose gradient came last is the next, the first layer's.
  const Problem four = with_disk(4, /*cpu=*/1, /*read=*/6, /*write=*/4, /*in_host=*/1);
  // All gradients are there at once. The last is written at 4, then each takes 2, 1 and 3 s: the
  // first three are updated at 7, 13 and 19, forward of the third and the last ends at 24 and 29.
  EXPECT_NEAR(step(four, all_on_disk(four), passes(4, 5, 0, std::vector<bool>(4, true))), 29, 1e-9);
}

TEST(StepTiers, WhatHasASlotGoesToAGpuBeforeWhatIsInHostMemory) {
  // Room for the first two, and one slot; the link brings one each second.
  const Problem problem = with_disk(4, /*cpu=*/1, /*read=*/12, /*write=*/12, /*in_host=*/3);
  Plan plan = all_cpu(problem);
  plan.assignments = {streamed_to(0), streamed_to(0), streamed_to(0, 1), streamed_to(0, 1)};
  set_windows(problem, plan, 1);
  // The last has the slot: on the GPU at 1, out at 2, written at 3. The first comes until 3, and
  // its forward begins. The third, read from 3 to 4, comes until 5, before the second, and its
  // kernel waits until 7; so the second comes from 8 to 9, where its forward begins.
  EXPECT_NEAR(step(problem, plan, passes(4, 4, 0, std::vector<bool>(4, true))), 9 + 12, 1e-4);
}

/// Nothing where it lacks memory.
std::optional<Plan> try_plan(const Problem& problem) {
  try {
    return make_plan("dos", problem);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Whatever the machine, all updates come to their end, and no step is shorter than its passes.
TEST(StepTiers, EndsOnRandomNodes) {
  const Philox random(17);
  for (const Index gpus : {0, 1, 2}) {
    int planned = 0;
    for (std::uint64_t stream = 0; stream < 400; ++stream) {
      const std::optional<Problem> problem = test::random_tiers(random, stream, gpus);
      if (!problem || problem->cost.host_parameter.value() > 0) continue;
      const std::optional<Plan> plan = try_plan(*problem);
      if (!plan) continue;
      const auto depths = static_cast<std::size_t>(problem->subgroups.back().depth) + 1;
      const double each =
          plan->time.value() * random.uniform(1, stream) / static_cast<double>(depths);
      const double whole = 3 * each * static_cast<double>(depths);
      std::vector<bool> some;
      for (std::size_t i = 0; i < problem->subgroups.size(); ++i)
        some.push_back((i + stream) % 3 > 0);
      for (const std::vector<bool>& ahead :
           {std::vector<bool>(), std::vector<bool>(some.size(), true), some})
        EXPECT_GE(step(*problem, *plan, passes(depths, each, 2 * each, ahead)), whole * (1 - 1e-9))
            << gpus << " GPUs, " << stream;
      ++planned;
    }
    EXPECT_GT(planned, 30) << gpus;
  }
}

}  // namespace
}  // namespace dos::sched::step_tiers_test

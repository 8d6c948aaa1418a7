// SPDX-License-Identifier: Apache-2.0
// Replays small enough to be computed by hand. Subgroups have 10^9 parameters; the GPU's kernel
// takes a microsecond, so times are compared to 10 us.
#include "sched/replay.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "problems.hpp"
#include "sched/interleave.hpp"
#include "sched/policy.hpp"

namespace dos::sched::replay_test {
namespace {

constexpr double kKernels = 1e-5;

Plan streamed(const Problem& problem, const std::vector<Index>& subgroups, Index window) {
  Plan plan = all_cpu(problem);
  for (const Index i : subgroups) plan.assignments[static_cast<std::size_t>(i)] = streamed_to(0);
  plan.window = {window};
  plan.window_memory = {problem.held_bytes(0) * static_cast<double>(window)};
  return plan;
}

double makespan(const Problem& problem, const Plan& plan) {
  return replay(problem, plan).makespan.value();
}

TEST(Replay, CpuWorkersTakeSubgroupsInRounds) {
  Problem problem = test::simple_problem(5, 4, 12);
  problem.rates.cpu_workers = 4;
  problem.rates.cpu_worker = units::gparams_per_second(1);
  // Four at once in 1 s, the fifth alone in another.
  EXPECT_NEAR(makespan(problem, all_cpu(problem)), 2, 1e-9);
  // A worker that is faster alone.
  problem.rates.cpu_worker = units::gparams_per_second(2);
  EXPECT_NEAR(makespan(problem, all_cpu(problem)), 1.5, 1e-9);
}

TEST(Replay, EndsEarlyWhereALimitIsPassed) {
  const Problem problem = test::simple_problem(5, 4, 12);
  const Plan plan = all_cpu(problem);
  const units::Seconds end = replay(problem, plan).update_end;
  EXPECT_EQ(update_end_by(problem, plan, end), end);
  EXPECT_EQ(update_end_by(problem, plan, end * 2), end);
  EXPECT_EQ(update_end_by(problem, plan, end * 0.999), std::nullopt);
  EXPECT_EQ(update_end_by(problem, plan, units::Seconds(0)), std::nullopt);
}

TEST(Replay, AWindowOfOneIsHalfDuplex) {
  const Problem problem = test::simple_problem(3, 1, 12);
  // In and out one after the other: 2 s a subgroup.
  EXPECT_NEAR(makespan(problem, streamed(problem, {0, 1, 2}, 1)), 6, kKernels);
  // Two buffers: in, in + out, in + out, out.
  EXPECT_NEAR(makespan(problem, streamed(problem, {0, 1, 2}, 2)), 4, kKernels);
  Plan half = streamed(problem, {0, 1, 2}, 2);
  half.execution.half_duplex = true;
  EXPECT_NEAR(makespan(problem, half), 6, kKernels);
}

TEST(Replay, WorkingParametersFollowOnTheLink) {
  Problem problem = test::simple_problem(2, 1, 2);
  problem.cost.weight = units::BytesPerParam(2);
  // Updates end at 1 and 2, each copy takes 1.
  EXPECT_NEAR(makespan(problem, all_cpu(problem)), 3, 1e-9);
}

TEST(Replay, GradientsComeFirst) {
  Problem problem = test::simple_problem(2, 1, 2);
  problem.cost.gradient = units::BytesPerParam(2);
  EXPECT_NEAR(makespan(problem, all_cpu(problem)), 3, 1e-9);
}

TEST(Replay, DramIsShared) {
  Problem problem = test::simple_problem(2, 1, 24);
  // CPU update 28 GB/s for 1 s and 24 GB/s of copies in 0.5 s each. DRAM of 26 GB/s halves both
  // while they run together: 28 + 24 GB/s.
  problem.rates.dram = units::gigabytes_per_second(26);
  const Replay result = replay(problem, streamed(problem, {1}, 1));
  // In and out together move 24 GB at 12 GB/s: 2 s. The CPU has 2 s at 14 GB/s: it ends then too.
  EXPECT_NEAR(result.makespan.value(), 2, kKernels);
}

TEST(Replay, LimitsOfABusyCpuHoldWhileItUpdates) {
  Problem problem = test::simple_problem(2, 1, 24);
  problem.rates.gpus[0].h2d_cpu_busy = units::gigabytes_per_second(8);
  const Replay result = replay(problem, streamed(problem, {1}, 1), true);
  // 1 s at 8 GB/s, the other 4 GB at 24; then 12 GB out at 24.
  EXPECT_NEAR(result.makespan.value(), 1 + 4.0 / 24 + 0.5, kKernels);
}

TEST(Replay, LatenciesAreCounted) {
  Problem problem = test::simple_problem(1, 1, 12);
  problem.rates.transfer_latency = units::Seconds(0.25);
  problem.rates.task_latency = units::Seconds(0.125);
  EXPECT_NEAR(makespan(problem, streamed(problem, {0}, 1)), 2 + 0.5 + 0.125, kKernels);
  EXPECT_NEAR(makespan(problem, all_cpu(problem)), 1.125, 1e-9);
}

TEST(Replay, ResidentsNeedNoCopy) {
  Problem problem = test::simple_problem(2, 1, 12);
  Plan plan = all_cpu(problem);
  plan.assignments[0] = resident_on(0);
  const Replay result = replay(problem, plan);
  EXPECT_NEAR(result.makespan.value(), 1, 1e-9);
  EXPECT_EQ(result.links[0].in_bytes.value(), 0);
  EXPECT_EQ(result.memory_peak[0], problem.held_bytes(0));
  EXPECT_NEAR(result.first_ready.value(), 0, kKernels);
}

TEST(Replay, AModelOnTheHostSendsGradientsAndWantsParameters) {
  Problem problem = test::simple_problem(2, 1, 4);
  problem.cost.host_gradient = problem.cost.host_parameter = units::BytesPerParam(4);
  Plan plan = streamed(problem, {1}, 1);
  plan.assignments[0] = resident_on(0);
  plan.window_memory[0] = problem.held_bytes(1);
  const Replay result = replay(problem, plan, true);
  EXPECT_NEAR(result.links[0].in_bytes.value(), 4e9 + 16e9, 1);
  EXPECT_NEAR(result.links[0].out_bytes.value(), 4e9 + 12e9, 1);
  EXPECT_NEAR(result.memory_peak[0].value(), 2 * 16e9, 1);
  // 1 s for the gradient of 0; its parameters go out beside the 4 s of 1's states, which need 3 s.
  EXPECT_NEAR(result.first_ready.value(), 2, kKernels);
  EXPECT_NEAR(result.makespan.value(), 1 + 4 + 3, kKernels);
}

TEST(Replay, AKernelIsLaunchedWhileTheOneBeforeRuns) {
  Problem problem = test::simple_problem(3, 1, 12);
  problem.rates.task_latency = units::Seconds(0.25);
  Plan plan = all_cpu(problem);
  for (Assignment& each : plan.assignments) each = resident_on(0);
  problem.rates.gpus[0].update = units::gparams_per_second(1);
  EXPECT_NEAR(makespan(problem, plan), 0.25 + 3, kKernels);
  // Shorter ones wait for their launches.
  problem.rates.gpus[0].update = units::gparams_per_second(1e6);
  EXPECT_NEAR(makespan(problem, plan), 3 * 0.25, kKernels);
}

TEST(Replay, SumsOnTheHostGoToAModelOnTheGpu) {
  Problem problem = test::simple_problem(3, 1, 4);
  problem.cost.host_gradient = units::BytesPerParam(4);
  problem.cost.weight = units::BytesPerParam(2);
  Plan plan = streamed(problem, {1}, 1);
  plan.assignments[0] = resident_on(0);
  plan.window_memory[0] = problem.held_bytes(1);
  const Replay result = replay(problem, plan, true);
  EXPECT_NEAR(result.links[0].in_bytes.value(), 4e9 + 16e9 + 2e9, 1);
  EXPECT_NEAR(result.links[0].out_bytes.value(), 12e9, 1);
  EXPECT_NEAR(result.memory_peak[0].value(), 2 * 16e9, 1);
  // Forward reads the parameters of 0 where they are updated, 1 s after its gradient has begun.
  EXPECT_NEAR(result.first_ready.value(), 1, kKernels);
  // By then the CPU has updated 2, whose parameters come before the 4 s of 1's states and gradient.
  EXPECT_NEAR(result.makespan.value(), 1 + 0.5 + 4 + 3, kKernels);
}

TEST(Replay, AModelOnTheHostInBf16WantsTheWorkingParametersOfWhatWasStreamed) {
  Problem problem = test::simple_problem(1, 1, 7);
  problem.cost.host_gradient = problem.cost.host_parameter = problem.cost.host_weight =
      units::BytesPerParam(2);
  Plan plan = streamed(problem, {0}, 1);
  plan.window_memory[0] = problem.held_bytes(0);
  const Replay result = replay(problem, plan);
  EXPECT_NEAR(result.links[0].in_bytes.value(), 14e9, 1);
  EXPECT_NEAR(result.links[0].out_bytes.value(), 14e9, 1);
  EXPECT_NEAR(result.memory_peak[0].value(), 16e9, 1);
  EXPECT_NEAR(result.makespan.value(), 2 + 2, kKernels);
}

TEST(Replay, CountsBytesAndBusyTimes) {
  Problem problem = test::simple_problem(3, 1, 12);
  problem.cost.weight = units::BytesPerParam(2);
  const Replay result = replay(problem, streamed(problem, {1}, 1), true);
  EXPECT_NEAR(result.links[0].in_bytes.value(), 12e9 + 2 * 2e9, 1);
  EXPECT_NEAR(result.links[0].out_bytes.value(), 12e9, 1);
  EXPECT_NEAR(result.links[0].in_busy.value(), 1 + 2.0 / 6, 1e-9);
  EXPECT_NEAR(result.cpu_busy.value(), 2, 1e-9);
  EXPECT_EQ(result.memory[0].front().bytes.value(), 0);
  EXPECT_EQ(result.memory_peak[0].value(), 12e9);
}

/// The published code: the host walks over the subgroups, waits for the states of each GPU one,
/// and transfers go both ways through one buffer.
TEST(Replay, PublishedCycle) {
  Problem problem = test::simple_problem(6, 1, 24);
  problem.cost.weight = units::BytesPerParam(2);
  problem.rates.published =
      perfmodels::PublishedRates{.downcast = units::gparams_per_second(4),
                                 .blocking_flush = units::gparams_per_second(1),
                                 .gpu_update = units::gparams_per_second(1e6)};
  PolicyOptions options{.stride = 2, .published = true};
  // CPU 0: 0-1 beside the prefetch of 1 (0-0.5). Flush of 1 and prefetch of 3: 1-2 beside CPU 2.
  // The same for 4 and 5. The last flush is not waited for.
  EXPECT_NEAR(make_plan("dos-stride", problem, options).time.value(), 3, kKernels);
  // A link of half the speed: the host waits 2 s a cycle from the second on.
  problem.rates.gpus[0].h2d = problem.rates.gpus[0].d2h = units::gigabytes_per_second(12);
  problem.rates.gpus[0].both = units::gigabytes_per_second(24);
  problem.rates.gpus[0].h2d_cpu_busy = problem.rates.gpus[0].h2d;
  problem.rates.gpus[0].d2h_cpu_busy = problem.rates.gpus[0].d2h;
  problem.rates.gpus[0].both_cpu_busy = problem.rates.gpus[0].both;
  problem.cost.weight = units::BytesPerParam(0);
  EXPECT_NEAR(make_plan("dos-stride", problem, options).time.value(), 1 + 2 + 2, kKernels);
  // The CPU subgroup behind a GPU one waits with the host.
  problem.subgroups.pop_back();
  EXPECT_NEAR(make_plan("dos-stride", problem, options).time.value(), 1 + 2 + 1, kKernels);
}

TEST(Replay, PublishedAllCpuAddsDowncastAndCopy) {
  Problem problem = test::simple_problem(2, 1, 4);
  problem.cost.weight = units::BytesPerParam(2);
  problem.rates.published =
      perfmodels::PublishedRates{.downcast = units::gparams_per_second(4),
                                 .blocking_flush = units::gparams_per_second(1),
                                 .gpu_update = units::gparams_per_second(1e6)};
  const PolicyOptions options{.published = true};
  EXPECT_NEAR(make_plan("zero-offload", problem, options).time.value(), 2 * (1 + 0.25 + 0.5), 1e-9);
}

TEST(Replay, ASubgroupBeyondItsWindowIsAnError) {
  const Problem problem = test::simple_problem(1, 1, 12);
  Plan plan = streamed(problem, {0}, 1);
  plan.window_memory = {units::gigabytes(11)};
  EXPECT_THAT([&] { replay(problem, plan); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("subgroup 0 needs 12.000 GB")));
}

}  // namespace
}  // namespace dos::sched::replay_test

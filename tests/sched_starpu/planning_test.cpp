// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/planning.hpp"

#include <gtest/gtest.h>

#include "sched/replay.hpp"

namespace dos::sched_starpu::planning_test {
namespace {

constexpr Index kSubgroups = 40;
constexpr Index kParams = 1'000'000;
constexpr double kStateBytes = 12.0 * kParams;
constexpr double kGpuRate = 10e9;
constexpr double kLink = 20e9;

/// GPUs whose memory holds a quarter of the states each, and half a CPU.
sched::Problem problem(Index gpus, double cpu_rate) {
  sched::Problem result;
  result.subgroups.assign(kSubgroups, {.params = kParams, .depth = 0});
  result.rates.cpu_workers = 4;
  result.rates.cpu_update = units::ParamsPerSecond(cpu_rate);
  result.rates.cpu_worker = result.rates.cpu_update / 4.0;
  result.rates.dram = units::BytesPerSecond(1e15);
  const units::BytesPerSecond link(kLink);
  result.rates.gpus.assign(static_cast<std::size_t>(gpus),
                           {.update = units::ParamsPerSecond(kGpuRate),
                            .h2d = link,
                            .d2h = link,
                            .both = link * 2.0,
                            .h2d_cpu_busy = link,
                            .d2h_cpu_busy = link,
                            .both_cpu_busy = link * 2.0});
  const units::Bytes memory(kStateBytes * kSubgroups / 4);
  result.memory.assign(static_cast<std::size_t>(gpus), {.update = memory, .resident = memory});
  return result;
}

PlanOrder order_of(const sched::Problem& problem, std::optional<sched::Plan> current = {}) {
  return {.policy = "dos",
          .options = {},
          .problem = problem,
          .subgroups = {},
          .current = std::move(current)};
}

std::vector<Index> homes(const sched::Plan& plan) {
  std::vector<Index> result;
  for (const sched::Assignment& each : plan.assignments) result.push_back(each.home);
  return result;
}

// What a device does is the same whatever the others do, where neither copies nor DRAM limit it.
TEST(Planning, SaysWhenEachDeviceEnds) {
  sched::Problem both = problem(1, /*cpu_rate=*/1e9);
  both.cost.weight = units::BytesPerParam(0);
  PlanOrder order = order_of(both);
  order.policy = "dos-stride";
  order.options.stride = 2;
  const PlanOutcome outcome = carry_out(order);
  ASSERT_EQ(outcome.ends.size(), 2U);
  EXPECT_NEAR(outcome.ends[0].value(), 20e6 / 1e9, 1e-9) << "five rounds of four workers";
  // 20 states in, one after the other, and the last kernel.
  EXPECT_NEAR(outcome.ends[1].value(), 20 * kStateBytes / kLink + kParams / kGpuRate, 1e-9);
}

/// The same plan with the GPUs' names changed: as fast, and all residents somewhere else.
sched::Plan exchanged(sched::Plan plan) {
  for (sched::Assignment& each : plan.assignments)
    for (Index* gpu : {&each.home, &each.device, &each.reader})
      if (*gpu >= 0) *gpu = 1 - *gpu;
  return plan;
}

TEST(Planning, MovingCountsWhatArrivesAndLeavesOnTheBusiestLink) {
  const sched::Problem two = problem(2, 1e9);
  sched::Plan now;
  now.assignments.assign(kSubgroups, sched::on_cpu(sched::kHost, /*reader=*/0));
  sched::Plan next = now;
  EXPECT_EQ(time_to_move(two, now, next).value(), 0);
  next.assignments[0] = sched::streamed_to(0);
  EXPECT_EQ(time_to_move(two, now, next).value(), 0) << "it travels in every step";
  next.assignments[1] = sched::resident_on(0);
  EXPECT_DOUBLE_EQ(time_to_move(two, now, next).value(), kStateBytes / kLink);
  EXPECT_DOUBLE_EQ(time_to_move(two, next, now).value(), kStateBytes / kLink);
  next.assignments[2] = sched::resident_on(1);
  EXPECT_DOUBLE_EQ(time_to_move(two, now, next).value(), kStateBytes / kLink) << "side by side";
  next.assignments[3] = sched::resident_on(1);
  EXPECT_DOUBLE_EQ(time_to_move(two, now, next).value(), 2 * kStateBytes / kLink);
}

TEST(Planning, TheFirstPlanCostsNothing) {
  EXPECT_TRUE(carry_out(order_of(problem(2, 1e9))).plan.has_value());
}

// Room for a quarter of the states beside no gradients, and for none beside all of them.
TEST(Planning, GradientsLeaveMemoryToWhatIsPlanned) {
  sched::Problem tight = problem(1, 1e9);
  sched::StateMemory& memory = tight.memory.front();
  memory.gradients = memory.update;
  const PlanOutcome first = carry_out(order_of(tight));
  const double share = first.plan->gpu_share(tight);
  EXPECT_GT(share, 0.1);
  EXPECT_LT(share, 0.9);
  const auto expect_beside = [&](const PlanOutcome& outcome) {
    const sched::StateMemory& left = outcome.order.problem.memory.front();
    EXPECT_NEAR(left.update.value(), memory.update.value() * (1 - share), 1);
    EXPECT_EQ(left.gradients, units::Bytes(0));
  };
  expect_beside(first);
  PlanOrder kept = order_of(tight, first.plan);
  kept.replans = false;
  expect_beside(carry_out(kept));
}

TEST(Planning, APlanThatIsNoFasterIsNotTaken) {
  const sched::Problem two = problem(2, 1e9);
  const sched::Plan other = exchanged(*carry_out(order_of(two)).plan);
  EXPECT_EQ(homes(*carry_out(order_of(two, other)).plan), homes(other));
}

TEST(Planning, APlanThatIsMuchFasterIsTaken) {
  const sched::Problem two = problem(2, 1e9);
  sched::Plan all_on_the_cpu = *carry_out(order_of(two)).plan;
  for (sched::Assignment& each : all_on_the_cpu.assignments)
    each = sched::on_cpu(sched::kHost, /*reader=*/0);
  EXPECT_NE(homes(*carry_out(order_of(two, all_on_the_cpu)).plan), homes(all_on_the_cpu));
}

// CPU and GPUs are in balance; two residents of one GPU moved to the other make a step a fifth
// longer. What brings them back exchanges all residents of both GPUs.
TEST(Planning, AGainThatMovingEatsIsNotTaken) {
  sched::Problem two = problem(2, 2 * kGpuRate);
  two.cost.weight = units::BytesPerParam(0);
  const auto set_links = [&](double bandwidth) {
    for (perfmodels::GpuRates& gpu : two.rates.gpus) {
      gpu.h2d = gpu.d2h = gpu.h2d_cpu_busy = gpu.d2h_cpu_busy = units::BytesPerSecond(bandwidth);
      gpu.both = gpu.both_cpu_busy = gpu.h2d * 2.0;
    }
  };
  const auto gain_of = [&](const sched::Plan& plan) {
    return (sched::replay(two, plan).update_end - carry_out(order_of(two)).plan->time).value();
  };
  constexpr double kSlow = 1e9;
  set_links(kSlow);
  const sched::Plan good = *carry_out(order_of(two)).plan;
  sched::Plan other = exchanged(good);
  Index moved = 0;
  for (sched::Assignment& each : other.assignments)
    if (sched::is_resident(each) && each.home == 0 && moved++ < 2) each = sched::resident_on(1);
  EXPECT_GT(gain_of(other), 0.03 * good.time.value()) << "worth it, were it not for the move";
  EXPECT_GT(time_to_move(two, other, good).value(), 200 * gain_of(other));
  EXPECT_EQ(homes(*carry_out(order_of(two, other)).plan), homes(other));

  set_links(100 * kSlow);
  EXPECT_GT(gain_of(other), 0.03 * good.time.value());
  EXPECT_NE(homes(*carry_out(order_of(two, other)).plan), homes(other));
}

}  // namespace
}  // namespace dos::sched_starpu::planning_test

// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/device_rates.hpp"

#include <gtest/gtest.h>

#include "sched_starpu/update_program.hpp"

namespace dos::sched_starpu::device_rates_test {
namespace {

constexpr Device kCpu{};
constexpr Device kFirst{.gpu = 0};
constexpr Device kSecond{.gpu = 1};

units::Seconds time_of(double rate) {
  return units::Seconds(kParams / rate);
}

TEST(DeviceRates, TwoSubgroupsAGpuShowItsRateInTurn) {
  const DeviceRates rates(surroundings(2), /*uses_gpus=*/true);
  for (const Index i : {0, 2}) EXPECT_EQ(rates.probe(i), kFirst) << i;
  for (const Index i : {1, 3}) EXPECT_EQ(rates.probe(i), kSecond) << i;
  EXPECT_EQ(rates.probe(4), kCpu);
  Tuning one;
  one.probes = 1;
  EXPECT_EQ(DeviceRates(surroundings(2), true, one).probe(2), kCpu);
  EXPECT_EQ(DeviceRates(surroundings(0), true).probe(0), kCpu);
  EXPECT_EQ(DeviceRates(surroundings(2), /*uses_gpus=*/false).probe(0), kCpu);
}

TEST(DeviceRates, WhatAModelSuggestsNeedsNoProbe) {
  DeviceRates rates(surroundings(2), true);
  rates.suggest(kParams, kFirst, units::Seconds(0));
  rates.suggest(0, kFirst, units::Seconds(1));
  EXPECT_EQ(rates.probe(0), kFirst) << "the model knows nothing";
  rates.suggest(kParams, kFirst, time_of(kGpuRate));
  EXPECT_EQ(rates.probe(0), kCpu);
  EXPECT_EQ(rates.probe(1), kSecond);
}

TEST(DeviceRates, AreKnownWhenThePolicysDevicesAre) {
  DeviceRates both(surroundings(1), true);
  DeviceRates cpu_only(surroundings(1), /*uses_gpus=*/false);
  for (DeviceRates* rates : {&both, &cpu_only}) {
    EXPECT_FALSE(rates->are_known());
    rates->see(kParams, kCpu, time_of(kCpuRate), /*settles_in=*/false);
  }
  EXPECT_FALSE(both.are_known());
  EXPECT_TRUE(cpu_only.are_known());
  both.suggest(kParams, kFirst, time_of(kGpuRate));
  EXPECT_TRUE(both.are_known());
}

// Plans then have bound and shares of the CPU alone.
TEST(DeviceRates, AGpuThatThePolicyLeavesAloneIsPlannedAsGoodAsStandingStill) {
  DeviceRates rates(surroundings(1), /*uses_gpus=*/false);
  rates.see(kParams, kCpu, time_of(kCpuRate), false);
  const perfmodels::Rates planned = rates.for_plan({});
  EXPECT_EQ(planned.cpu_worker.value(), kCpuRate);
  EXPECT_EQ(planned.cpu_update.value(), 8 * kCpuRate);
  ASSERT_EQ(planned.gpus.size(), 1U);
  EXPECT_EQ(planned.gpus[0].update.value(), kCpuRate * Tuning{}.unknown_gpu);
}

TEST(DeviceRates, DramNeverLimitsAPlan) {
  DeviceRates rates(surroundings(2), true);
  for (const Device device : {kCpu, kFirst, kSecond})
    rates.suggest(kParams, device, time_of(kCpuRate));
  const sched::UpdateCost cost{.cpu_traffic = units::BytesPerParam(28)};
  EXPECT_DOUBLE_EQ(rates.for_plan(cost).dram.value(), 8 * kCpuRate * 28 + 2 * 2 * 20e9);
}

TEST(DeviceRates, PlansTakeTheLinkThatWasMeasuredWhereItIsSlower) {
  Surroundings around = surroundings(2);
  const auto rates_of = [&] {
    DeviceRates rates(around, true);
    for (const Device& device : {kCpu, kFirst, kSecond})
      rates.see(kParams, device, time_of(kGpuRate), /*settles_in=*/false);
    return rates.for_plan({}).gpus.back();
  };
  const perfmodels::GpuRates alone = rates_of();
  EXPECT_EQ(alone.both, units::gigabytes_per_second(40));
  EXPECT_EQ(alone.both_cpu_busy, alone.both);
  around.measured_link = alone;
  around.measured_link->h2d = units::gigabytes_per_second(19);
  around.measured_link->both = units::gigabytes_per_second(36);
  around.measured_link->h2d_cpu_busy = units::gigabytes_per_second(15);
  around.measured_link->d2h_cpu_busy = units::gigabytes_per_second(21);
  around.measured_link->both_cpu_busy = units::gigabytes_per_second(25);
  const perfmodels::GpuRates measured = rates_of();
  EXPECT_EQ(measured.h2d, alone.h2d) << "StarPU's, which is of this run";
  EXPECT_EQ(measured.both, units::gigabytes_per_second(36));
  EXPECT_EQ(measured.h2d_cpu_busy, units::gigabytes_per_second(15));
  EXPECT_EQ(measured.d2h_cpu_busy, alone.d2h);
  EXPECT_EQ(measured.both_cpu_busy, units::gigabytes_per_second(25));
  EXPECT_EQ(measured.update, alone.update);
}

TEST(DeviceRates, HaveChangedBeyondTheThreshold) {
  for (const double threshold : {0.05, 0.5}) {
    Tuning tuning;
    tuning.rate_change = threshold;
    for (const Device device : {kCpu, kFirst}) {
      DeviceRates rates(surroundings(1), true, tuning);
      for (const Device each : {kCpu, kFirst}) rates.see(kParams, each, time_of(kCpuRate), false);
      const perfmodels::Rates then = rates.for_plan({});
      EXPECT_FALSE(rates.have_changed_since(then));
      const auto follow = [&](double factor) {
        for (Index i = 0; i < Tuning::recent_updates; ++i)
          rates.see(kParams, device, time_of(kCpuRate * factor), false);
        return rates.have_changed_since(then);
      };
      EXPECT_FALSE(follow(1 + threshold * 0.9));
      EXPECT_FALSE(follow(1 - threshold * 0.9));
      EXPECT_TRUE(follow(1 + threshold * 1.1));
      EXPECT_TRUE(follow(1 - threshold * 1.1));
    }
  }
}

/// What plans take a GPU's streamed updates to wait after a step of such updates, of `params` in
/// all.
struct Waiting {
  /// Updates for which the GPU has memory beside forward.
  explicit Waiting(double room = 4) : rates(around(room), true) {
    // 8 workers: 0.8 Gparam/s. The link brings 20 GB/s, of 12 bytes a parameter.
    rates.set_cost({.state = units::BytesPerParam(12)});
    rates.see(kParams, kCpu, units::Seconds(kParams / 0.1e9), false);
    rates.see(kParams, kFirst, units::Seconds(kParams / 50e9), false);
  }
  double after(double params, Beside beside = Beside::kBackward) {
    rates.begin_step(beside, units::Params(params), units::Params(kParams));
    return rates.for_plan({}).gpus[0].wait.value();
  }
  static Surroundings around(double room) {
    Surroundings result = surroundings(1);
    result.gpus[0].memory.resident = units::Bytes(room * kParams * 12);
    return result;
  }

  DeviceRates rates;
};

// Ten tasks of 10 ms, beside which as many parameters come as CPU and link take.
TEST(DeviceRates, StreamedUpdatesWaitForTheTaskAtWork) {
  Waiting waiting;
  EXPECT_EQ(waiting.after(1e9), 0) << "nothing else has run";
  const auto run = [&](int tasks, double seconds) {
    for (int i = 0; i < tasks; ++i) waiting.rates.see_other(kFirst, units::Seconds(seconds));
  };
  const double link = 20e9 / 12;
  run(10, 0.01);
  EXPECT_NEAR(waiting.after(0.1 * (0.8e9 + link)), 0.01, 1e-9);
  run(10, 0.01);
  EXPECT_NEAR(waiting.after(0.1 * (0.8e9 + 5 * link)), 0.01, 1e-9) << "the link brings no more";
  run(10, 0.01);
  EXPECT_NEAR(waiting.after(0.1 * (0.8e9 + link / 2)), 0.005, 1e-9) << "the CPU has the others";
  run(10, 0.01);
  EXPECT_EQ(waiting.after(0.099 * 0.8e9), 0) << "the CPU has all";
  // Of 0.2 s a half is in tasks of 10 ms, the other in one.
  run(10, 0.01);
  run(1, 0.1);
  EXPECT_NEAR(waiting.after(0.2 * (0.8e9 + link)), 0.055, 1e-9);
}

TEST(DeviceRates, ForwardIsWhatRunsBesideUpdatesThatCameBefore) {
  Waiting waiting;
  EXPECT_TRUE(waiting.rates.forward().empty());
  const auto after = [&](double seconds, Beside beside = Beside::kForward) {
    for (int i = 0; i < 10; ++i) waiting.rates.see_other(kFirst, units::Seconds(seconds));
    waiting.after(1e9, beside);
    return waiting.rates.forward();
  };
  const auto expect = [](const std::vector<units::Seconds>& forward, double each) {
    ASSERT_EQ(forward.size(), 10U);
    for (const units::Seconds task : forward) EXPECT_NEAR(task.value(), each, 1e-9);
  };
  expect(after(0.01), 0.01);
  // No more than Tuning::wait_change.
  expect(after(0.012), 0.01);
  expect(after(0.02), 0.02);
  for (const Beside beside : {Beside::kBackward, Beside::kBoth}) {
    expect(after(0.01), 0.01);
    EXPECT_TRUE(after(0.01, beside).empty());
  }
  EXPECT_EQ(waiting.after(1e9, Beside::kBoth), 0);
  Waiting full(/*room=*/3.9);
  full.rates.see_other(kFirst, units::Seconds(0.1));
  EXPECT_EQ(full.after(1e9, Beside::kForward), 0) << "activations want the memory back";
  EXPECT_TRUE(full.rates.forward().empty());
}

TEST(DeviceRates, AnotherWaitOrdersAPlan) {
  Waiting waiting;
  const double params = 0.1 * (0.8e9 + 20e9 / 12);
  const auto changes = [&](double seconds) {
    const perfmodels::Rates then = waiting.rates.for_plan({});
    waiting.rates.see_other(kFirst, units::Seconds(seconds));
    waiting.after(params * seconds / 0.1);
    return waiting.rates.have_changed_since(then);
  };
  EXPECT_TRUE(changes(0.1));
  EXPECT_FALSE(changes(0.1));
  EXPECT_FALSE(changes(0.12)) << "no more than Tuning::wait_change";
  EXPECT_TRUE(changes(0.14));
}

TEST(DeviceRates, WhatSettlesInCountsUntilAnotherIsKnown) {
  DeviceRates rates(surroundings(1), true);
  rates.see(kParams, kFirst, units::Seconds(4), /*settles_in=*/true);
  EXPECT_FALSE(rates.of(kFirst).is_measured());
  EXPECT_EQ(rates.expected(kParams, kFirst)->value(), 4);
  rates.see(kParams, kFirst, units::Seconds(1), false);
  rates.see(kParams, kFirst, units::Seconds(9), /*settles_in=*/true);
  EXPECT_TRUE(rates.of(kFirst).is_measured());
  EXPECT_EQ(rates.expected(kParams, kFirst)->value(), 1);
}

TEST(DeviceRates, AnUpdateWithoutTimeOrParametersShowsNothing) {
  DeviceRates rates(surroundings(0), true);
  rates.see(0, kCpu, units::Seconds(1), false);
  rates.see(kParams, kCpu, units::Seconds(0), false);
  EXPECT_FALSE(rates.are_known());
}

// The first measurement may have loaded a kernel.
TEST(DeviceRates, MeasurementsReplaceWhatAModelSaid) {
  DeviceRates rates(surroundings(0), true);
  rates.suggest(kParams, kCpu, units::Seconds(1));
  rates.see(kParams, kCpu, units::Seconds(9), false);
  EXPECT_EQ(rates.expected(kParams, kCpu)->value(), 1);
  EXPECT_FALSE(rates.of(kCpu).is_measured());
  rates.see(kParams, kCpu, units::Seconds(2), false);
  EXPECT_TRUE(rates.of(kCpu).is_measured());
  rates.suggest(kParams, kCpu, units::Seconds(1));
  EXPECT_EQ(rates.expected(kParams, kCpu)->value(), 2);
}

TEST(DeviceRates, AnUpdateTakesAsLongAsWhatHoldsItUp) {
  DeviceRates rates(surroundings(2), true);
  EXPECT_FALSE(rates.expected(kParams, kFirst).has_value());
  rates.suggest(kParams, kFirst, units::Seconds(4e-5));
  rates.set_cost({.host_gradient = units::BytesPerParam(4),
                  .host_parameter = units::BytesPerParam(2),
                  .state_buffers = 3});
  const auto seconds = [&](Stay stay) { return rates.expected(kParams, kFirst, stay)->value(); };
  EXPECT_NEAR(seconds(Stay::kStreams), 16e6 / 20e9, 1e-12) << "states and gradient in";
  EXPECT_NEAR(seconds(Stay::kResident), 4e6 / 20e9, 1e-12) << "the gradient";
  const double allocation = 3 * 2 * perfmodels::kAllocation.value();
  EXPECT_NEAR(seconds(Stay::kArrives), std::max(16e6 / 20e9, allocation), 1e-12);
  EXPECT_NEAR(rates.time_at(units::ParamsPerSecond(1e6), kParams, kFirst).value(), 1, 1e-12)
      << "a kernel that is slower than the link";
  EXPECT_NEAR(rates.write_back_time(kParams, kFirst).value(), 3e-5 + 12e6 / 20e9, 1e-12)
      << "three copies";
}

TEST(DeviceRates, MemoryIsThatOfTheSurroundingsUntilItIsRead) {
  Surroundings around = surroundings(2, /*memory=*/1e9);
  DeviceRates unread(around, true);
  unread.read_memory();
  EXPECT_EQ(unread.around().gpus[1].memory.update.value(), 1e9) << "nobody reads it";
  around.read_memory = [](Index gpu) {
    return sched::StateMemory{.update = units::Bytes(static_cast<double>(gpu + 1)),
                              .resident = units::Bytes(0)};
  };
  DeviceRates rates(around, true);
  EXPECT_EQ(rates.around().gpus[1].memory.update.value(), 1e9);
  rates.read_memory();
  EXPECT_EQ(rates.around().gpus[0].memory.update.value(), 1);
  EXPECT_EQ(rates.around().gpus[1].memory.update.value(), 2);
}

}  // namespace
}  // namespace dos::sched_starpu::device_rates_test

// SPDX-License-Identifier: Apache-2.0
// The bound over tiers that only keep states: against sums by hand, and against every division of a
// random model.
#include <gmock/gmock.h>

#include <array>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "base/error.hpp"
#include "sched/bound.hpp"
#include "tiers.hpp"

namespace dos::sched::tier_bound_test {
namespace {

using test::disk;
using test::random_tiers;
using test::with_disk;
using test::without_gpu;
using testing::HasSubstr;

const ResourceUse& resource(const Bound& bound, const std::string& name) {
  for (const ResourceUse& use : bound.resources)
    if (use.name == name) return use;
  throw std::runtime_error("no resource " + name);
}

units::Params at_home(const Bound& bound, Index tier) {
  units::Params sum{0};
  for (const Part& part : bound.parts)
    if (part.home == tier) sum += part.params;
  return sum;
}

constexpr double kNear = 1e-5;  // GPU and DRAM are there, but a million times faster

TEST(TierBound, TheDiskBinds) {
  // 3 of 4 Gparam live there, 36 GB: 6 s to read, 9 s to write, beside 4 s of updates.
  const Bound bound = lower_bound(without_gpu(with_disk(4, 1, 6, 4, 1)));
  EXPECT_NEAR(bound.time.value(), 9, kNear);
  EXPECT_EQ(bound.binding, "nvme write");
  EXPECT_NEAR(resource(bound, "nvme read").utilisation, 6.0 / 9, 1e-6);
  EXPECT_NEAR(at_home(bound, 0).value(), 3e9, 1);
}

TEST(TierBound, ReadsAndWritesTakeTurns) {
  Problem problem = without_gpu(with_disk(4, 1, 6, 4, 1));
  problem.rates.tiers[0].link.half_duplex = true;
  const Bound bound = lower_bound(problem);
  EXPECT_NEAR(bound.time.value(), 6 + 9, kNear);
  EXPECT_EQ(bound.binding, "nvme half duplex");
}

TEST(TierBound, BothDirectionsShareTheirSum) {
  Problem problem = without_gpu(with_disk(4, 1, 6, 6, 1));
  problem.rates.tiers[0].link.both = units::gigabytes_per_second(8);
  EXPECT_NEAR(lower_bound(problem).time.value(), 72.0 / 8, kNear);
  EXPECT_EQ(lower_bound(problem).binding, "nvme link");
}

TEST(TierBound, TheCpuBindsBesideAFastDisk) {
  const Bound bound = lower_bound(without_gpu(with_disk(4, 1, 60, 40, 1)));
  EXPECT_NEAR(bound.time.value(), 4, kNear);
  EXPECT_EQ(bound.binding, "cpu");
}

TEST(TierBound, TheLinkBindsBehindAFastDisk) {
  // Half each for the CPU and a link of 12 GB/s, wherever they live.
  const Bound bound = lower_bound(with_disk(4, 1, 60, 40, 1));
  EXPECT_NEAR(bound.time.value(), 2, kNear);
  EXPECT_NEAR(bound.streamed[0].value(), 2e9, 1e5);
  // A hundred times the CPU's rate helps it as much as one more link.
  EXPECT_NEAR(resource(bound, "gpu 0 h2d").utilisation, 1, 1e-6);
}

TEST(TierBound, HostMemoryBinds) {
  // (48 - 30) GB at 6 GB/s; each GB more of host memory saves a sixth of a second.
  const Bound bound = lower_bound(without_gpu(with_disk(4, 10, 6, 6, 2.5)));
  EXPECT_NEAR(bound.time.value(), 3, kNear);
  EXPECT_EQ(bound.binding, "host memory");
  EXPECT_NEAR(resource(bound, "host memory").weight, 30 / 6.0 / 3, 1e-5);
}

TEST(TierBound, CapacityOfTheFastDiskBinds) {
  // 1 Gparam in host memory, 2 on a fast disk, 1 on one of 2 GB/s.
  Problem problem = without_gpu(with_disk(4, 10, 60, 60, 1));
  problem.rates.tiers[0].capacity = units::gigabytes(24);
  problem.rates.tiers.push_back(disk("sata", 2, 2));
  const Bound bound = lower_bound(problem);
  EXPECT_NEAR(bound.time.value(), 6, kNear);
  EXPECT_EQ(bound.binding, "nvme memory");
}

TEST(TierBound, DisksDrawOnDram) {
  // 28 bytes a parameter for the CPU, 24 for what comes and goes: 112 + 72 GB at 46 GB/s.
  Problem problem = without_gpu(with_disk(4, 1, 60, 60, 1));
  problem.rates.dram = units::gigabytes_per_second(46);
  EXPECT_NEAR(lower_bound(problem).time.value(), 4, kNear);
  problem.rates.dram = units::gigabytes_per_second(23);
  EXPECT_NEAR(lower_bound(problem).time.value(), 8, kNear);
  EXPECT_EQ(lower_bound(problem).binding, "dram");
}

TEST(TierBound, ResidentsLeaveMoreHostMemory) {
  Problem problem = with_disk(4, 10, 6, 6, 1);
  problem.rates.gpus[0].h2d = problem.rates.gpus[0].d2h = units::gigabytes_per_second(0.012);
  problem.memory[0].resident = problem.held_bytes(0);
  const Bound bound = lower_bound(problem);
  EXPECT_NEAR(bound.time.value(), 24.0 / 6, 0.01) << "two of four live on the disk";
  EXPECT_NEAR(bound.resident[0].value(), 1e9, 1);
}

TEST(TierBound, WhatFitsNowhereIsSaid) {
  Problem problem = without_gpu(with_disk(4, 1, 6, 6, 1));
  problem.rates.tiers[0].capacity = units::gigabytes(30);
  EXPECT_THAT([&] { lower_bound(problem); },
              testing::ThrowsMessage<Error>(testing::AllOf(HasSubstr("states of 48 GB fit nowhere"),
                                                           HasSubstr("nvme 30 GB"))));
  // Nothing can pass through host memory that holds no subgroup.
  problem.rates.tiers[0].capacity = units::gigabytes(300);
  problem.host_memory = units::gigabytes(11);
  EXPECT_THAT([&] { lower_bound(problem); },
              testing::ThrowsMessage<Error>(testing::AllOf(HasSubstr("host memory has 11 GB"),
                                                           HasSubstr("raise train.host_memory"))));
}

/// Seconds that parts of a model with one GPU and one disk take, computed resource by resource;
/// infinite where memory is missing.
double time_of(const Problem& problem, const std::array<double, 5>& parts) {
  const auto [cpu, cpu_disk, gpu, gpu_disk, resident] = parts;
  const perfmodels::Rates& rates = problem.rates;
  const perfmodels::GpuRates& device = rates.gpus[0];
  const perfmodels::LinkRates& link = rates.tiers[0].link;
  const UpdateCost& cost = problem.cost;
  const double state = cost.state.value();
  const double on_cpu = cpu + cpu_disk;
  const double streamed = gpu + gpu_disk;
  const double on_disk = (cpu_disk + gpu_disk) * state;
  constexpr double kTight = 1 + 1e-9;
  if (resident * cost.held().value() >
          kTight * std::min(problem.memory[0].resident, problem.memory[0].update).value() ||
      (cpu + gpu) * state > kTight * problem.host_memory.value() ||
      on_disk > kTight * rates.tiers[0].capacity.value())
    return std::numeric_limits<double>::infinity();
  const double in = streamed * (state + cost.host_gradient.value()) +
                    resident * cost.host_gradient.value() + on_cpu * cost.weight.value();
  const double out = streamed * (state + cost.host_weight.value()) +
                     resident * cost.host_parameter.value() + on_cpu * cost.gradient.value();
  const double dram = on_cpu * cost.cpu_traffic.value() + in + out + 2 * on_disk;
  const double turns =
      link.half_duplex ? on_disk / link.in.value() + on_disk / link.out.value() : 0;
  return std::max({on_cpu / rates.cpu_update.value(), (streamed + resident) / device.update.value(),
                   in / device.h2d.value(), out / device.d2h.value(),
                   (in + out) / device.both.value(), on_disk / link.in.value(),
                   on_disk / link.out.value(), 2 * on_disk / link.both.value(), turns,
                   dram / rates.dram.value()});
}

TEST(TierBound, IsTheLeastOfAllDivisions) {
  const Philox random(31);
  int compared = 0;
  for (std::uint64_t stream = 0; stream < 400; ++stream) {
    auto problem = random_tiers(random, stream, /*gpus=*/1);
    if (!problem) continue;
    problem->rates.tiers.resize(1);
    problem->rates.cpu_worker =
        problem->rates.cpu_update / static_cast<double>(problem->rates.cpu_workers);
    problem->memory[0].update = units::gigabytes(1e6);
    Bound bound;
    try {
      bound = lower_bound(*problem);
    } catch (const Error&) {
      continue;
    }
    ++compared;
    const double all = problem->total().value();
    std::array<double, 5> best{};
    for (const Part& part : bound.parts)
      best[part.home == 0 && part.device == 0
               ? 4U
               : (part.device == 0 ? 2U : 0U) + (part.home == kHost ? 0U : 1U)] +=
          part.params.value();
    EXPECT_NEAR(std::accumulate(best.begin(), best.end(), 0.0), all, all * 1e-9) << stream;
    EXPECT_NEAR(time_of(*problem, best), bound.time.value(), bound.time.value() * 1e-6) << stream;
    constexpr int kGrid = 8;
    for (int a = 0; a <= kGrid; ++a)
      for (int b = 0; a + b <= kGrid; ++b)
        for (int c = 0; a + b + c <= kGrid; ++c)
          for (int d = 0; a + b + c + d <= kGrid; ++d) {
            const double part = all / kGrid;
            const std::array<double, 5> parts{a * part, b * part, c * part, d * part,
                                              (kGrid - a - b - c - d) * part};
            ASSERT_GE(time_of(*problem, parts), bound.time.value() * (1 - 1e-9)) << stream;
          }
  }
  EXPECT_GT(compared, 50);
}

}  // namespace
}  // namespace dos::sched::tier_bound_test

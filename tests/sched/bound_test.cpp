// SPDX-License-Identifier: Apache-2.0
#include "sched/bound.hpp"

#include <gtest/gtest.h>

#include "problems.hpp"

namespace dos::sched::bound_test {
namespace {

const ResourceUse& resource(const Bound& bound, const std::string& name) {
  for (const ResourceUse& use : bound.resources)
    if (use.name == name) return use;
  throw std::runtime_error("no resource " + name);
}

TEST(LowerBound, BalancesCpuAndLink) {
  // CPU 1 Gparam/s, link 12 GB/s: one streamed Gparam/s. Half each.
  const Problem problem = test::simple_problem(4, 1, 12);
  const Bound bound = lower_bound(problem);
  // The GPU and DRAM are there, but a million times faster.
  EXPECT_NEAR(bound.time.value(), 2, 1e-5);
  EXPECT_NEAR(bound.cpu.value(), 2e9, 1e5);
  EXPECT_NEAR(bound.streamed[0].value(), 2e9, 1e5);
  EXPECT_NEAR(resource(bound, "cpu").utilisation, 1, 1e-9);
  EXPECT_NEAR(resource(bound, "gpu 0 h2d").utilisation, 1, 1e-9);
}

TEST(LowerBound, OfAStepHasWhatGpusComputeBesides) {
  // The GPU updates 1 Gparam/s and computes 3 s besides, the CPU has all 4 Gparam at 1 Gparam/s
  // but for what the GPU takes on in the time that is left.
  Problem problem = test::simple_problem(4, 1, 1e6);
  problem.rates.gpus[0].update = units::gparams_per_second(1);
  const Bound bound = lower_bound(problem, {.passes = units::Seconds(3)});
  EXPECT_NEAR(bound.time.value(), 3.5, 1e-4);
  EXPECT_NEAR(bound.streamed[0].value() + bound.resident[0].value(), 0.5e9, 1e5);
  EXPECT_NEAR(resource(bound, "gpu 0 compute").utilisation, 1, 1e-9);
  // All of it on the CPU takes less than what the GPU computes.
  const Bound passes = lower_bound(problem, {.passes = units::Seconds(5)});
  EXPECT_NEAR(passes.time.value(), 5, 1e-4);
  EXPECT_EQ(passes.binding, "gpu 0 compute");
}

TEST(LowerBound, CountsWorkingParametersAndGradients) {
  // starpu-like closed form: (1 - x) P / U = (12 x + 2 (1 - x)) P / B.
  Problem problem = test::simple_problem(4, 1, 12);
  problem.cost.weight = problem.cost.gradient = units::BytesPerParam(2);
  const double x = (12 - 2) / (12.0 + 12 - 2);
  const Bound bound = lower_bound(problem);
  EXPECT_NEAR(bound.streamed[0] / problem.total(), x, 1e-5);
  EXPECT_NEAR(bound.time.value(), (1 - x) * 4, 1e-5);
}

// Sums of several ranks' gradients in host memory, the model on the GPU: 16 bytes go in for what is
// streamed, the working parameter for what is not. (1 - x) P / U = (16 x + 2 (1 - x)) P / B.
TEST(LowerBound, CountsGradientsThatComeFromTheHost) {
  Problem problem = test::simple_problem(4, 1, 16);
  problem.cost.weight = units::BytesPerParam(2);
  problem.cost.host_gradient = units::BytesPerParam(4);
  const double x = (16 - 2) / (16.0 + 16 - 2);
  const Bound bound = lower_bound(problem);
  EXPECT_NEAR(bound.streamed[0] / problem.total(), x, 1e-5);
  EXPECT_NEAR(bound.time.value(), (1 - x) * 4, 1e-5);
}

// All on the CPU, 2 Gparam of 2 bytes: 3 GB/s and 1 GB/s take 4 GB in 1 s if the faster link has
// three quarters of them, in 2 s if each has half.
TEST(LowerBound, DealsWorkingParametersAsTheLinksAllow) {
  Problem problem = test::simple_problem(2, 1e3, 3);
  problem.rates.gpus.push_back(test::simple_problem(1, 1, 1).rates.gpus[0]);
  problem.memory.assign(2, {});
  problem.cost.weight = units::BytesPerParam(2);
  EXPECT_NEAR(lower_bound(problem).time.value(), 1, 1e-5);
  EXPECT_NEAR(lower_bound(problem, {.deals_evenly = true}).time.value(), 2, 1e-5);
}

// Model on the host: p, m, v and a gradient of 2 bytes go to the GPU, p, m, v and w of 2 bytes
// return. (1 - x) P / U = 14 x P / B, either way.
TEST(LowerBound, CountsWorkingParametersThatGoHome) {
  Problem problem = test::simple_problem(4, 1, 14);
  problem.cost.host_gradient = problem.cost.host_parameter = problem.cost.host_weight =
      units::BytesPerParam(2);
  const Bound bound = lower_bound(problem);
  EXPECT_NEAR(bound.streamed[0] / problem.total(), 0.5, 1e-5);
  EXPECT_NEAR(bound.time.value(), 2, 1e-5);
  EXPECT_NEAR(resource(bound, "gpu 0 h2d").utilisation, 1, 1e-9);
  EXPECT_NEAR(resource(bound, "gpu 0 d2h").utilisation, 1, 1e-9);
  EXPECT_NEAR(resource(bound, "gpu 0 link").utilisation, 1, 1e-9);
}

TEST(LowerBound, HalfDuplexHalvesTheLink) {
  const Problem problem = test::simple_problem(3, 1, 24);
  EXPECT_NEAR(lower_bound(problem, {.half_duplex = true}).time.value(), 1.5, 1e-5);
  EXPECT_NEAR(lower_bound(problem).time.value(), 1, 1e-5);
}

TEST(LowerBound, DramBindsBothDevices) {
  Problem problem = test::simple_problem(4, 2, 48);
  // CPU alone needs 56 GB/s, the link at full speed 96.
  problem.rates.dram = units::gigabytes_per_second(60);
  const Bound bound = lower_bound(problem);
  EXPECT_EQ(bound.binding, "dram");
  // 28 B on the CPU, 24 streamed: as much as the link takes goes to the GPU. 60 T = 28 (4 - s) +
  // 24 s with s <= 4: all of it, 1.6 s.
  EXPECT_NEAR(bound.time.value(), 1.6, 1e-4);
}

TEST(LowerBound, ResidentsAreFreeWhileMemoryLasts) {
  Problem problem = test::simple_problem(4, 1, 12);
  problem.memory[0].resident = units::gigabytes(24);
  const Bound bound = lower_bound(problem);
  EXPECT_NEAR(bound.resident[0].value(), 2e9, 1);
  EXPECT_NEAR(bound.time.value(), 1, 1e-5);
  EXPECT_NEAR(lower_bound(problem, {.residents = false}).time.value(), 2, 1e-5);
}

TEST(LowerBound, WithoutAGpuOrItsMemoryTheCpuBinds) {
  Problem problem = test::simple_problem(4, 1, 12);
  problem.memory[0].update = units::gigabytes(11.9);
  EXPECT_NEAR(lower_bound(problem).time.value(), 4, 1e-5);
  EXPECT_EQ(lower_bound(problem).binding, "cpu");
  problem.rates.gpus.clear();
  problem.memory.clear();
  EXPECT_NEAR(lower_bound(problem).time.value(), 4, 1e-5);
  EXPECT_EQ(lower_bound(problem).binding, "cpu");
}

TEST(LowerBound, SeveralGpusAddTheirLinks) {
  Problem problem = test::simple_problem(4, 1, 12);
  problem.rates.gpus.push_back(problem.rates.gpus[0]);
  problem.memory.push_back(problem.memory[0]);
  EXPECT_NEAR(lower_bound(problem).time.value(), 4.0 / 3, 1e-5);
}

TEST(LowerBound, BusyLinksAreSlower) {
  Problem problem = test::simple_problem(4, 1, 12);
  problem.rates.gpus[0].h2d_cpu_busy = units::gigabytes_per_second(6);
  EXPECT_NEAR(lower_bound(problem, {.busy_links = true}).time.value(), 4 / 1.5, 1e-5);
}

}  // namespace
}  // namespace dos::sched::bound_test

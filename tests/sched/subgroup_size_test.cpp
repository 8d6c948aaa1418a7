// SPDX-License-Identifier: Apache-2.0
#include "sched/subgroup_size.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "base/error.hpp"

namespace dos::sched {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<Index> sizes_of(const std::vector<Subgroup>& subgroups) {
  std::vector<Index> sizes;
  for (const Subgroup& each : subgroups) sizes.push_back(each.params);
  return sizes;
}

TEST(CutEvenly, MakesEqualSizesAndASmallerLast) {
  EXPECT_THAT(sizes_of(cut_evenly(1, 1)), testing::ElementsAre(1));
  EXPECT_THAT(sizes_of(cut_evenly(5, 100)), testing::ElementsAre(5));
  EXPECT_THAT(sizes_of(cut_evenly(12, 4)), testing::ElementsAre(4, 4, 4));
  EXPECT_THAT(sizes_of(cut_evenly(13, 6)), testing::ElementsAre(5, 5, 3));
  EXPECT_EQ(cut_evenly(13, 6)[2].depth, 2);
  EXPECT_THROW(cut_evenly(0, 1), ContractViolation);
}

std::string error_of(const std::vector<Index>& parts, Index size) {
  try {
    expect_few_subgroups(parts, size, "--subgroup");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ExpectFewSubgroups, NamesTheSmallestSizeThatWorks) {
  EXPECT_EQ(error_of({kMostSubgroups}, 1), "no error");
  EXPECT_EQ(error_of({1, 1}, 1), "no error");
  EXPECT_EQ(error_of({7}, std::numeric_limits<Index>::max()), "no error");
  EXPECT_THAT(error_of({kMostSubgroups + 1}, 1),
              AllOf(HasSubstr("--subgroup 1: makes 100001 subgroups"), HasSubstr("at least 2")));
  // Every part has a last piece of its own, so that the sum's quotient is too small.
  const std::vector<Index> parts{1'000'000'000, 3, 600'000'001};
  const std::string error = error_of(parts, 7);
  const Index least = std::stoll(error.substr(error.rfind(' ')));
  EXPECT_GT(least, 16'000);
  EXPECT_EQ(error_of(parts, least), "no error");
  EXPECT_NE(error_of(parts, least - 1), "no error");
}

Problem node(double memory) {
  Problem problem;
  problem.rates.cpu_workers = 24;
  problem.rates.cpu_update = units::gparams_per_second(3);
  problem.rates.cpu_worker = units::gparams_per_second(0.125);
  problem.rates.dram = units::gigabytes_per_second(1000);
  problem.rates.transfer_latency = units::microseconds(10);
  problem.rates.task_latency = units::microseconds(5);
  const auto link = units::gigabytes_per_second(50);
  const auto both = units::gigabytes_per_second(100);
  problem.rates.gpus.push_back({.update = units::gparams_per_second(25),
                                .h2d = link,
                                .d2h = link,
                                .both = both,
                                .h2d_cpu_busy = link,
                                .d2h_cpu_busy = link,
                                .both_cpu_busy = both});
  problem.memory.push_back({units::gigabytes(memory), units::gigabytes(memory)});
  return problem;
}

constexpr Index kParams = 320'000'000;

double time_with(Problem problem, Index size) {
  problem.subgroups = cut_evenly(kParams, size);
  return make_plan("dos", problem).time.value();
}

TEST(ChooseSubgroupSize, IsNoSlowerThanOtherSizes) {
  const Problem problem = node(2.5);
  const Index chosen = choose_subgroup_size("dos", problem, kParams, {});
  const double best = time_with(problem, chosen);
  // Sizes between those it tries may be better by what half a step changes: a round of the CPU's
  // workers, one of at least 20 here.
  for (const Index size : {1'000'000, 2'000'000, 4'000'000, 8'000'000, 16'000'000, 64'000'000})
    EXPECT_LE(best, time_with(problem, size) * 1.05) << size;
}

TEST(ChooseSubgroupSize, CountsTheLatencyOfEveryBuffer) {
  Problem problem = node(2.5);
  problem.rates.transfer_latency = units::microseconds(200);
  const Index one = choose_subgroup_size("gpu-only", problem, kParams, {});
  problem.cost.state_buffers = 3;
  EXPECT_GT(choose_subgroup_size("gpu-only", problem, kParams, {}), one);
}

TEST(ChooseSubgroupSize, OfHugeModelsIsLargerThanUsual) {
  constexpr Index kHuge = 1'000'000'000'000;
  EXPECT_EQ(choose_subgroup_size("zero-offload", node(8), kHuge, {}), kHuge / 2500);
}

TEST(ChooseSubgroupSize, KeepsToTheMemory) {
  const Index chosen = choose_subgroup_size("gpu-only", node(0.024), kParams, {});
  EXPECT_LE(chosen, 2'000'000);
  try {
    choose_subgroup_size("gpu-only", node(0.001), kParams, {});
    FAIL() << "no size fits";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("0.001 GB"));
  }
}

}  // namespace
}  // namespace dos::sched

// SPDX-License-Identifier: Apache-2.0
#include "sched/cut.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace dos::sched::cut_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<Index> sizes_of(const std::vector<Subgroup>& subgroups) {
  std::vector<Index> sizes;
  for (const Subgroup& each : subgroups) sizes.push_back(each.params);
  return sizes;
}

TEST(CutInto, MakesEqualSizesAndASmallerLast) {
  EXPECT_THAT(sizes_of(cut_into(1, {.size = 1})), testing::ElementsAre(1));
  EXPECT_THAT(sizes_of(cut_into(5, {.size = 100})), testing::ElementsAre(5));
  EXPECT_THAT(sizes_of(cut_into(12, {.size = 4})), testing::ElementsAre(4, 4, 4));
  EXPECT_THAT(sizes_of(cut_into(13, {.size = 6})), testing::ElementsAre(5, 5, 3));
  EXPECT_EQ(cut_into(13, {.size = 6})[2].depth, 2);
  EXPECT_THROW(cut_into(0, {.size = 1}), ContractViolation);
}

std::string error_of(const std::vector<Index>& parts, Index size) {
  try {
    expect_few_subgroups(parts, size, "--subgroup");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CutInto, SpreadsLargeOnesEvenly) {
  EXPECT_THAT(sizes_of(cut_into(30, {.size = 3, .large = 2, .large_params = 9})),
              testing::ElementsAre(3, 9, 3, 3, 9, 3));
  EXPECT_THAT(sizes_of(cut_into(25, {.size = 2, .large = 5, .large_params = 4})),
              testing::ElementsAre(2, 4, 4, 2, 4, 4, 1, 4));
  const std::vector<Subgroup> many = cut_into(1'000, {.size = 5, .large = 7, .large_params = 90});
  EXPECT_EQ(std::ranges::count(sizes_of(many), 90), 7);
  for (std::size_t i = 0; i < many.size(); ++i) EXPECT_EQ(many[i].depth, static_cast<Index>(i));
  EXPECT_THROW(cut_into(18, {.size = 3, .large = 2, .large_params = 9}), ContractViolation);
}

TEST(ExpectFewSubgroups, NamesTheSmallestSizeThatWorks) {
  EXPECT_EQ(error_of({kMostPieces}, 1), "no error");
  EXPECT_EQ(error_of({1, 1}, 1), "no error");
  EXPECT_EQ(error_of({7}, std::numeric_limits<Index>::max()), "no error");
  EXPECT_THAT(error_of({kMostPieces + 1}, 1),
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

double time_with(Problem problem, const Cut& cut) {
  problem.subgroups = cut_into(kParams, cut);
  return make_plan("dos", problem).time.value();
}

TEST(ChooseCut, IsNoSlowerThanOtherSizes) {
  const Problem problem = node(2.5);
  const Cut chosen = choose_cut("dos", problem, kParams, {});
  const double best = time_with(problem, chosen);
  // Sizes between those it tries may be better by what half a step changes: a round of the CPU's
  // workers, one of at least 20 here.
  for (const Index size : {1'000'000, 2'000'000, 4'000'000, 8'000'000, 16'000'000, 64'000'000})
    EXPECT_LE(best, time_with(problem, {.size = size}) * 1.05) << size;
}

// Nine tenths of the states stay: in large subgroups their memory is allocated in few pieces, and
// links and CPU share small ones.
TEST(ChooseCut, MakesLargeOnesOfWhatStays) {
  Problem problem = node(kParams * 12 * 0.9 / 1e9);
  problem.rates.gpus[0].update = units::gparams_per_second(100);
  problem.rates.allocation = units::microseconds(175);
  problem.cost.state_buffers = 3;
  const Cut chosen = choose_cut("dos", problem, kParams, {});
  EXPECT_GT(chosen.large, 1);
  EXPECT_GT(chosen.large_params, chosen.size);
  EXPECT_NEAR(static_cast<double>(chosen.in_large()) / kParams, 0.89, 0.02);
  for (const Index size : {1'000'000, 2'000'000, 4'000'000, 8'000'000, 16'000'000})
    EXPECT_LE(time_with(problem, chosen), time_with(problem, {.size = size}) * 1.01) << size;
}

// The CPU would save less than a thirtieth, for which subgroups would have to be a hundred times as
// small.
TEST(ChooseCut, LeavesWhatStaysWhole) {
  Problem problem = node(kParams * 12 * 1.1 / 1e9);
  problem.rates.gpus[0].update = units::gparams_per_second(110);
  problem.rates.cpu_workers = 2;
  problem.rates.cpu_worker = units::gparams_per_second(1.5);
  const Cut chosen = choose_cut("dos", problem, kParams, {});
  EXPECT_LE(cut_into(kParams, chosen).size(), 2U);
  bool is_slower = false;  // by the plan
  for (const Index size : {1'000'000, 1'500'000, 2'000'000, 3'000'000})
    is_slower |= time_with(problem, {.size = size}) < 0.998 * time_with(problem, chosen);
  EXPECT_TRUE(is_slower) << "nothing to leave";
}

TEST(ChooseCut, CountsTheLatencyOfEveryBuffer) {
  Problem problem = node(2.5);
  problem.rates.transfer_latency = units::microseconds(200);
  const Cut one = choose_cut("gpu-only", problem, kParams, {});
  problem.cost.state_buffers = 3;
  EXPECT_GT(choose_cut("gpu-only", problem, kParams, {}).size, one.size);
}

TEST(ChooseCut, OfHugeModelsIsLargerThanUsual) {
  constexpr Index kHuge = 1'000'000'000'000;
  EXPECT_EQ(choose_cut("zero-offload", node(8), kHuge, {}).size, kHuge / 2500);
}

TEST(ChooseCut, KeepsToTheMemory) {
  const Cut chosen = choose_cut("gpu-only", node(0.024), kParams, {});
  EXPECT_LE(chosen.size, 2'000'000);
  try {
    choose_cut("gpu-only", node(0.001), kParams, {});
    FAIL() << "no size fits";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("0.001 GB"));
  }
}

}  // namespace
}  // namespace dos::sched::cut_test

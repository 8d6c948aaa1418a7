// SPDX-License-Identifier: Apache-2.0
// Policies on machines whose host memory does not hold the states: how near plans come to the
// bound, over one disk and two, and what more disks may never cost.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "base/sanitizer.hpp"
#include "perfmodels/machine.hpp"
#include "sched/policy.hpp"
#include "sched/policy_registry.hpp"
#include "sched/replay.hpp"
#include "tiers.hpp"

namespace dos::sched::tier_policy_test {
namespace {

using test::disk;
using test::random_tiers;
using test::with_disk;
using test::without_gpu;
using testing::HasSubstr;

double bytes_at(const Problem& problem, const Plan& plan, Index tier) {
  double bytes = 0;
  for (std::size_t i = 0; i < plan.assignments.size(); ++i)
    if (plan.assignments[i].home == tier)
      bytes += problem.state_bytes(static_cast<Index>(i)).value();
  return bytes;
}

TEST(TierPolicies, RefuseWhatFitsNowhere) {
  Problem problem = with_disk(4, 1, 6, 4, 1);
  problem.rates.tiers.clear();
  for (const Policy& policy : policies()) {
    if (policy.name == std::string("dos-stride")) continue;
    EXPECT_THAT([&] { make_plan(policy.name, problem); },
                testing::ThrowsMessage<Error>(
                    testing::AllOf(HasSubstr("12 GB"), HasSubstr("use more ranks"))))
        << policy.name;
  }
  problem.host_memory = units::gigabytes(48);
  EXPECT_NEAR(make_plan("zero-offload", problem).time.value(), 4, 1e-9);
}

TEST(TierPolicies, LeaveStatesInHostMemoryThatHoldsThem) {
  const Problem problem = with_disk(4, 1, 6, 4, 4);
  for (const Policy& policy : policies()) {
    if (policy.name == std::string("dos-stride") || policy.name == std::string("zero-infinity"))
      continue;
    EXPECT_EQ(bytes_at(problem, make_plan(policy.name, problem), 1), 0) << policy.name;
  }
}

TEST(TierPolicies, PutTheRestOnTheDisk) {
  // Two of four stay beside one that is on its way: 2 s to read, 1 s to update, 3 s to write.
  const Problem problem = without_gpu(with_disk(4, 1, 6, 4, 3));
  const Plan plan = make_plan("zero-offload", problem);
  EXPECT_EQ(bytes_at(problem, plan, 0), 24e9);
  EXPECT_NEAR(plan.time.value(), 2 * 6, 1e-9);
  EXPECT_EQ(plan.assignments.front().home, 0) << "reading begins at once";
}

TEST(TierPolicies, GoldenZeroInfinity) {
  // All four on the disk, though host memory has room for all: one is read, updated and written
  // in 6 s, and writes bind.
  Problem problem = without_gpu(with_disk(4, 1, 6, 4, 4));
  const Plan plan = make_plan("zero-infinity", problem);
  EXPECT_EQ(bytes_at(problem, plan, 0), 48e9);
  EXPECT_NEAR(plan.time.value(), 2 + 1 + 4 * 3, 1e-9);
  EXPECT_EQ(replay(problem, plan).host_peak.value(), 36e9) << "three at once";
  problem.rates.tiers.clear();
  EXPECT_NEAR(make_plan("zero-infinity", problem).time.value(), 4, 1e-9);
}

TEST(TierPolicies, GoldenMlpOffload) {
  // Of twelve one stays beside five on their way; the others by the lesser rates, 4 and 2 GB/s.
  Problem problem = without_gpu(with_disk(12, 1, 6, 4, 6));
  problem.rates.tiers.push_back(disk("pfs", 2, 3));
  const Plan plan = make_plan("mlp-offload", problem);
  EXPECT_EQ(plan.assignments.front().home, kHost);
  EXPECT_EQ(bytes_at(problem, plan, 0), 7 * 12e9);
  EXPECT_EQ(bytes_at(problem, plan, 1), 4 * 12e9);
  EXPECT_LE(make_plan("dos", problem).time, plan.time);
}

/// A part of a published node, with the states of a model and disks of today.
struct Node {
  const char* machine;
  double states;  ///< GB
  double part;    ///< of them that host memory holds
  std::vector<perfmodels::TierRates> disks;
};

Problem problem_of(const Node& node, Index subgroups) {
  const auto machine = perfmodels::find_machine(node.machine, DOS_MACHINE_FOLDER);
  Problem problem;
  problem.rates = perfmodels::rates_of(machine, 1);
  problem.rates.tiers = node.disks;
  const double params = node.states * 1e9 / problem.cost.state.value();
  for (Index i = 0; i < subgroups; ++i)
    problem.subgroups.push_back({static_cast<Index>(params / static_cast<double>(subgroups)), i});
  problem.memory = {{machine.gpu_memory.value * 0.5, machine.gpu_memory.value * 0.05}};
  problem.host_memory = units::gigabytes(node.states * node.part);
  return problem;
}

perfmodels::TierRates taking_turns(const std::string& name, double read, double write) {
  perfmodels::TierRates tier = disk(name, read, write);
  tier.link.half_duplex = true;
  tier.link.latency = units::microseconds(20);
  return tier;
}

perfmodels::TierRates duplex(const std::string& name, double read, double write, double both) {
  perfmodels::TierRates tier = disk(name, read, write);
  tier.link.both = tier.link.both_cpu_busy = units::gigabytes_per_second(both);
  tier.link.latency = units::microseconds(20);
  return tier;
}

TEST(TierPolicies, DosComesNearTheBoundOfNodesWithDisks) {
  const auto gen3 = taking_turns("gen3", 3, 2);
  const auto gen4 = duplex("gen4", 7, 5, 8);
  const auto gen5 = taking_turns("gen5", 14, 10);
  const auto shared = taking_turns("pfs", 2, 1.5);
  const std::vector<std::vector<perfmodels::TierRates>> all{
      {gen4}, {gen5}, {gen5, shared}, {gen4, gen3}};
  // Plans take ten times as long under a sanitizer, which needs to see few of them.
  const Index every = kIsSanitized ? 7 : 1;
  Index number = 0;
  for (const char* machine : {"h100", "a100", "rtx4090"})
    for (const double states : {50.0, 1000.0})
      for (const double part : {0.03, 0.8})
        for (const auto& disks : all) {
          if (number++ % every != 0) continue;
          const Node node{machine, states, part, disks};
          // A worker should need little of the step for one of them.
          const Problem problem = problem_of(node, 1200);
          const Plan plan = make_plan("dos", problem);
          EXPECT_GE(plan.bound.time / plan.time, 0.9)
              << machine << ", " << states << " GB, " << part << " in host memory, "
              << disks.front().name << " of " << disks.size() << ": " << describe(plan, problem);
        }
}

TEST(TierPolicies, ASlowDiskIsNoObstacle) {
  for (const double read : {2.0, 0.5, 0.05, 0.002}) {
    Problem problem = problem_of({"h100", 200, 0.5, {duplex("gen4", 7, 5, 8)}}, 400);
    const double alone = make_plan("dos", problem).time.value();
    problem.rates.tiers.push_back(taking_turns("slow", read, read));
    EXPECT_LE(make_plan("dos", problem).time.value(), alone * (1 + 1e-9)) << read;
    std::ranges::reverse(problem.rates.tiers);
    EXPECT_LE(make_plan("dos", problem).time.value(), alone * (1 + 1e-9)) << read;
  }
}

TEST(TierPolicies, DosIsNotSlowerThanOverOneDiskOrThanAnyOther) {
  const Philox random(47);
  int compared = 0;
  for (std::uint64_t stream = 0; stream < 1000; ++stream) {
    auto problem = random_tiers(random, stream, static_cast<Index>(stream % 3));
    if (!problem) continue;
    // So that host memory has room for some on their way, as subgroups are cut for.
    problem->host_memory +=
        units::Bytes(8 * static_cast<double>(problem->largest()) * problem->cost.state.value());
    const auto time_of = [](const Problem& each, const char* policy) {
      try {
        return make_plan(policy, each).time.value();
      } catch (const Error&) {
        return std::numeric_limits<double>::infinity();
      }
    };
    const double dos = time_of(*problem, "dos");
    for (const Policy& policy : policies())
      ASSERT_LE(dos, time_of(*problem, policy.name) * (1 + 1e-9)) << stream << ' ' << policy.name;
    if (problem->rates.tiers.size() < 2) continue;
    ++compared;
    for (const perfmodels::TierRates& tier : problem->rates.tiers) {
      Problem one = *problem;
      one.rates.tiers = {tier};
      ASSERT_LE(dos, time_of(one, "dos") * (1 + 1e-9)) << stream << ' ' << tier.name;
    }
  }
  EXPECT_GT(compared, 30);
}

}  // namespace
}  // namespace dos::sched::tier_policy_test

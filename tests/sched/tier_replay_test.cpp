// SPDX-License-Identifier: Apache-2.0
// Replays with states that live in a tier that only keeps them: small ones by hand, many subgroups
// against the bound, random plans against what must always hold.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "sched/interleave.hpp"
#include "sched/policy.hpp"
#include "sched/policy_registry.hpp"
#include "sched/replay.hpp"
#include "sched/transition.hpp"
#include "tiers.hpp"
#include "tracks.hpp"

namespace dos::sched::tier_replay_test {
namespace {

using test::disk;
using test::random_tiers;
using test::with_disk;
using testing::HasSubstr;

constexpr double kNear = 1e-5;  // a kernel takes a microsecond

Plan planned(const Problem& problem, const std::vector<Assignment>& assignments, Index window = 1) {
  Plan plan = all_cpu(problem);
  plan.assignments = assignments;
  deal_weights(problem, plan);
  set_windows(problem, plan, window);
  return plan;
}

TEST(TierReplay, StatesComeAndGo) {
  const Problem one = with_disk(1, 1, 6, 4, 1);
  // Read 2 s, update 1 s, write 3 s; or read, in, out, write, and a kernel of a microsecond.
  EXPECT_NEAR(replay(one, planned(one, {on_cpu(1)})).makespan.value(), 6, 1e-9);
  const Replay streamed = replay(one, planned(one, {streamed_to(0, 1)}));
  EXPECT_NEAR(streamed.makespan.value(), 2 + 1 + 1 + 3, kNear);
  EXPECT_EQ(streamed.links[0].in_bytes.value(), 12e9);
  EXPECT_EQ(streamed.links[0].out_bytes.value(), 12e9);
  EXPECT_EQ(streamed.links[1].in_bytes.value(), 12e9);
  EXPECT_EQ(streamed.links[1].out_bytes.value(), 12e9);
  EXPECT_NEAR(streamed.links[1].in_busy.value(), 3, 1e-9);
  EXPECT_NEAR(streamed.links[1].out_busy.value(), 2, 1e-9);
  EXPECT_EQ(streamed.host_peak.value(), 12e9);
  EXPECT_EQ(streamed.memory_peak[0].value(), 12e9);
}

TEST(TierReplay, HostMemoryBoundsWhatIsOnItsWay) {
  Problem problem = with_disk(2, 1, 6, 4, 1);
  const Plan plan = planned(problem, {on_cpu(1), on_cpu(1)});
  // One after the other; or the second is read while the first is updated and written.
  EXPECT_NEAR(replay(problem, plan).makespan.value(), 2 * 6, 1e-9);
  problem.host_memory = units::gigabytes(24);
  EXPECT_NEAR(replay(problem, plan).makespan.value(), 2 + 1 + 3 + 3, 1e-9);
  EXPECT_EQ(replay(problem, plan).host_peak.value(), 24e9);
  // What lives in host memory takes its part of it.
  const Plan mixed = planned(problem, {on_cpu(1), on_cpu(kHost)});
  EXPECT_NEAR(replay(problem, mixed).makespan.value(), 6, 1e-9);
}

TEST(TierReplay, ADiskThatTakesTurnsReadsFirst) {
  Problem problem = with_disk(2, 1, 6, 4, 2);
  problem.rates.tiers[0].link.half_duplex = true;
  const Plan plan = planned(problem, {on_cpu(1), on_cpu(1)});
  EXPECT_NEAR(replay(problem, plan).makespan.value(), 2 + 2 + 3 + 3, 1e-9);
}

TEST(TierReplay, CountsItsLatency) {
  Problem problem = with_disk(1, 1, 6, 4, 1);
  problem.rates.tiers[0].link.latency = units::Seconds(0.25);
  problem.cost.state_buffers = 3;
  EXPECT_NEAR(replay(problem, planned(problem, {on_cpu(1)})).makespan.value(), 6 + 6 * 0.25, 1e-9);
}

TEST(TierReplay, WorkingParametersDoNotWaitForTheDisk) {
  Problem problem = with_disk(1, 1, 6, 4, 1);
  problem.cost.weight = units::BytesPerParam(2);
  const Replay result = replay(problem, planned(problem, {on_cpu(1)}));
  EXPECT_NEAR(result.first_ready.value(), 2 + 1 + 2.0 / 12, 1e-9);
  EXPECT_NEAR(result.makespan.value(), 6, 1e-9);
}

TEST(TierReplay, TwoDisksWithOneSlotTakeTurns) {
  Problem problem = with_disk(4, 1, 12, 12, 1);
  problem.rates.tiers.push_back(disk("sata", 6, 6));
  const std::vector<Assignment> both{on_cpu(2), on_cpu(1), on_cpu(2), on_cpu(1)};
  EXPECT_NEAR(replay(problem, planned(problem, both)).makespan.value(), 2 * 5 + 2 * 3, 1e-9);
}

TEST(TierReplay, WhatDoesNotFitIsAnError) {
  Problem problem = with_disk(3, 1, 6, 4, 2);
  const auto replayed = [&](const std::vector<Assignment>& assignments) {
    return [&problem, assignments] { replay(problem, planned(problem, assignments)); };
  };
  EXPECT_THAT(replayed({on_cpu(kHost), on_cpu(kHost), on_cpu(kHost)}),
              testing::ThrowsMessage<Error>(
                  HasSubstr("host memory has 24 GB for states, those that live there need 36 GB")));
  EXPECT_THAT(replayed({on_cpu(kHost), on_cpu(kHost), on_cpu(1)}),
              testing::ThrowsMessage<Error>(HasSubstr("and one on its way need 36 GB")));
  problem.rates.tiers[0].capacity = units::gigabytes(20);
  EXPECT_THAT(replayed({on_cpu(kHost), on_cpu(1), on_cpu(1)}),
              testing::ThrowsMessage<Error>(HasSubstr("tier nvme has 20 GB for states")));
}

/// Subgroups dealt to the parts of a bound, each to the one that has had least of what it is to
/// have: spread evenly over the order.
std::vector<Assignment> dealt(const Problem& problem, const Bound& bound) {
  std::vector<double> had(bound.parts.size(), 0.0);
  std::vector<Assignment> assignments;
  for (const Subgroup& subgroup : problem.subgroups) {
    std::size_t next = 0;
    const auto missing = [&](std::size_t p) {
      return had[p] + static_cast<double>(subgroup.params) / 2 -
             bound.parts[p].params / problem.total() *
                 (std::accumulate(had.begin(), had.end(), 0.0) +
                  static_cast<double>(subgroup.params));
    };
    for (std::size_t p = 1; p < had.size(); ++p)
      if (missing(p) < missing(next)) next = p;
    had[next] += static_cast<double>(subgroup.params);
    assignments.push_back({.home = bound.parts[next].home, .device = bound.parts[next].device});
  }
  return assignments;
}

/// 2000 subgroups of 2 M parameters: 48 GB of states.
Problem many(double cpu, double read, double write, double in_host) {
  Problem problem = with_disk(1, cpu, read, write, 1);
  problem.subgroups.assign(2000, {2'000'000, 0});
  problem.host_memory = units::gigabytes(48 * in_host);
  problem.rates.cpu_workers = 4;
  problem.rates.cpu_worker = problem.rates.cpu_update / 4.0;
  problem.memory[0] = {units::gigabytes(5), units::gigabytes(2)};
  problem.cost.weight = units::BytesPerParam(2);
  return problem;
}

TEST(TierReplay, ComesNearTheBound) {
  std::map<std::string, Problem> cases{
      {"nvme write", many(4, 6, 5, 0.4)},       {"cpu", many(4, 60, 50, 0.5)},
      {"gpu 0 h2d", many(1, 60, 50, 0.2)},      {"dram", many(2, 20, 20, 0.5)},
      {"nvme half duplex", many(4, 7, 5, 0.4)}, {"sata write", many(2, 3, 2, 0.3)}};
  cases.at("dram").rates.dram = units::gigabytes_per_second(105);
  cases.at("nvme half duplex").rates.tiers[0].link.half_duplex = true;
  Problem& two = cases.at("sata write");
  two.rates.tiers.push_back(disk("sata", 7, 5));
  two.rates.gpus.push_back(two.rates.gpus[0]);
  two.memory.push_back(two.memory[0]);
  for (const auto& [binding, problem] : cases) {
    SCOPED_TRACE(binding);
    EXPECT_EQ(lower_bound(problem).binding, binding);
    // Room for 16 subgroups on their way through host memory, and for windows on GPUs.
    Problem smaller = problem;
    smaller.host_memory -= problem.state_bytes(0) * 16.0;
    for (StateMemory& memory : smaller.memory) memory.resident -= problem.held_bytes(0);
    Plan plan = all_cpu(problem);
    plan.assignments = dealt(problem, lower_bound(smaller));
    deal_weights(problem, plan);
    set_windows(problem, plan, {});
    // Scarce DRAM slows all alike: what could have gone slower ends early, with or without disks.
    const double most = binding == "dram" ? 1.1 : 1.05;
    EXPECT_LE(replay(problem, plan).makespan / lower_bound(problem).time, most);
  }
}

// Residents come while others live on the disk: these go on doing so, and what host memory has at
// first leaves room for one of them.
TEST(TierReplay, StepsOnTheWayKeepHomesBehindHostMemory) {
  Problem problem = with_disk(40, 1, 12, 12, 31);
  problem.memory[0] = {units::gigabytes(480), units::gigabytes(240)};
  Plan target = all_cpu(problem);
  target.policy = "dos";
  for (std::size_t i = 0; i < target.assignments.size(); ++i)
    target.assignments[i] = i % 4 == 0   ? resident_on(0)
                            : i % 4 == 1 ? streamed_to(0, i % 8 == 1 ? 1 : kHost)
                                         : on_cpu(i % 8 == 2 ? 1 : kHost);
  deal_weights(problem, target);
  set_windows(problem, target, {});
  for (const Assignment& each : target.assignments)
    problem.homes.push_back(is_resident(each) ? kHost : each.home);
  const Plan step = step_towards(problem, target);
  for (std::size_t i = 0; i < step.assignments.size(); ++i) {
    if (problem.only_keeps(target.assignments[i].home)) {
      EXPECT_EQ(step.assignments[i].home, target.assignments[i].home) << i;
    }
  }
  const Replay replayed = replay(problem, step);
  EXPECT_LE(replayed.host_peak, problem.host_memory);
  EXPECT_GE(replayed.host_peak.value(), 31 * 12e9) << "30 that begin there, and one on its way";
  problem.host_memory -= units::gigabytes(12);
  EXPECT_THAT([&] { replay(problem, step); },
              testing::ThrowsMessage<Error>(HasSubstr("and one on its way need 372 GB")));
}

/// A random plan that fits: homes and devices by chance, as long as there is room.
std::optional<Plan> random_plan(const Problem& problem, const Philox& random,
                                std::uint64_t stream) {
  std::uint64_t next = 5000;
  const auto below = [&](Index count) {
    return static_cast<Index>(random.uniform(next++, stream) * static_cast<double>(count) * 0.9999);
  };
  Plan plan = all_cpu(problem);
  for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
    const Index device = below(problem.gpus() + 1) - 1;
    const Index further = problem.tiers() - problem.gpus();
    const Index place = below(further + 2);
    const Index home = place < further ? problem.gpus() + place : place == further ? kHost : device;
    plan.assignments[i] = {.home = home, .device = device};
  }
  deal_weights(problem, plan);
  try {
    set_windows(problem, plan, {});
    expect_homes_fit(problem, plan.assignments);
    for (Index g = 0; g < problem.gpus(); ++g) {
      const StateMemory& memory = problem.memory[static_cast<std::size_t>(g)];
      units::Bytes resident{0};
      for (const Index i : plan.gpu_order(g))
        if (is_resident(plan.assignments[static_cast<std::size_t>(i)]))
          resident += problem.held_bytes(i);
      if (resident > std::min(memory.update, memory.resident)) return std::nullopt;
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return plan;
}

/// Bytes over each link are those of the table; states are in host memory from the start of their
/// read to the end of their write at most, beside those at home there.
void expect_bytes_and_memory(const Problem& problem, const Plan& plan, const Replay& replayed) {
  std::vector<LinkTraffic> expected;
  for (Index tier = 0; tier < problem.tiers(); ++tier)
    expected.push_back({tier, units::BytesPerParam(0), units::BytesPerParam(0)});
  units::Bytes at_home{0};
  for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
    const auto params = static_cast<double>(problem.subgroups[i].params);
    for (const LinkTraffic& each : traffic_of(problem.cost, plan.assignments[i])) {
      expected[static_cast<std::size_t>(each.tier)].in += each.in * params;
      expected[static_cast<std::size_t>(each.tier)].out += each.out * params;
    }
    if (plan.assignments[i].home == kHost) at_home += problem.state_bytes(static_cast<Index>(i));
  }
  for (std::size_t tier = 0; tier < expected.size(); ++tier) {
    const double in = expected[tier].in.value();
    const double out = expected[tier].out.value();
    ASSERT_NEAR(replayed.links[tier].in_bytes.value(), in, 1e-9 * in) << tier;
    ASSERT_NEAR(replayed.links[tier].out_bytes.value(), out, 1e-9 * out) << tier;
  }
  std::multimap<double, double> changes;
  for (const Activity& each : replayed.activities) {
    if (!problem.only_keeps(each.tier)) continue;
    const double bytes = problem.state_bytes(each.subgroup).value();
    if (each.work == Work::kStateOut) changes.emplace(each.start.value(), bytes);
    if (each.work == Work::kStateIn) changes.emplace(each.end.value() - 1e-12, -bytes);
  }
  double held = at_home.value();
  for (const auto& [time, change] : changes) {
    held += change;
    ASSERT_LE(held, problem.host_memory.value() * (1 + 1e-9));
    ASSERT_LE(held, replayed.host_peak.value() * (1 + 1e-9));
  }
  ASSERT_NEAR(held, at_home.value(), 1e-6 * problem.host_memory.value());
  ASSERT_LE(replayed.host_peak.value(), problem.host_memory.value() * (1 + 1e-9));
  for (std::size_t g = 0; g < problem.memory.size(); ++g)
    ASSERT_LE(replayed.memory_peak[g].value(), problem.memory[g].update.value() * (1 + 1e-9));
}

/// Where each subgroup's states are, activity by activity.
void expect_routes(const Problem& problem, const Plan& plan, const Replay& replayed) {
  std::vector<Index> place;
  std::vector<Index> updates(plan.assignments.size(), 0);
  std::vector<Activity> activities = replayed.activities;
  for (const Assignment& each : plan.assignments) place.push_back(each.home);
  for (const Activity& each : activities) {
    const auto i = static_cast<std::size_t>(each.subgroup);
    if (each.work == Work::kStateOut) {
      ASSERT_EQ(place[i], each.tier);
      place[i] = kHost;
    } else if (each.work == Work::kStateIn) {
      ASSERT_EQ(place[i], kHost);
      place[i] = each.tier;
    } else if (each.work == Work::kCpuUpdate || each.work == Work::kGpuUpdate) {
      ASSERT_EQ(place[i], plan.assignments[i].device);
      ++updates[i];
    }
  }
  for (std::size_t i = 0; i < place.size(); ++i) {
    ASSERT_EQ(updates[i], 1);
    ASSERT_EQ(place[i], plan.assignments[i].home) << problem.name_of_tier(place[i]);
  }
}

/// Where reads and writes take turns, one is at work at a time.
void expect_turns(const Problem& problem, const Replay& replayed) {
  for (Index tier = problem.gpus(); tier < problem.tiers(); ++tier) {
    if (!problem.link_of(tier).half_duplex) continue;
    std::vector<Activity> copies;
    for (const Activity& each : replayed.activities)
      if (each.tier == tier) copies.push_back(each);
    std::ranges::sort(copies, {}, &Activity::start);
    for (std::size_t i = 1; i < copies.size(); ++i)
      ASSERT_LE(copies[i - 1].end.value(), copies[i].start.value() * (1 + 1e-12));
  }
}

/// All that must hold for a plan.
void expect_valid(const Problem& problem, const Plan& plan) {
  const Replay replayed = replay(problem, plan, /*record=*/true);
  test::expect_no_overlap(problem, replayed);
  expect_bytes_and_memory(problem, plan, replayed);
  expect_routes(problem, plan, replayed);
  expect_turns(problem, replayed);
  ASSERT_GE(replayed.makespan.value(), lower_bound(problem).time.value() * (1 - 1e-6));
}

TEST(TierReplay, KeepsMemoryAndBoundOnRandomPlans) {
  const Philox random(41);
  int played = 0;
  for (std::uint64_t stream = 0; stream < 3000; ++stream) {
    const auto problem = random_tiers(random, stream, static_cast<Index>(stream % 4));
    if (!problem) continue;
    const auto plan = random_plan(*problem, random, stream);
    if (!plan) continue;
    ++played;
    SCOPED_TRACE(stream);
    expect_valid(*problem, *plan);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(played, 200);
}

TEST(TierReplay, KeepsMemoryAndBoundWithEveryPolicy) {
  const Philox random(43);
  std::map<std::string, int> played;
  for (std::uint64_t stream = 0; stream < 600; ++stream) {
    const auto problem = random_tiers(random, stream, static_cast<Index>(stream % 4));
    if (!problem) continue;
    for (const Policy& policy : policies()) {
      std::optional<Plan> plan;
      try {
        plan = make_plan(policy.name, *problem);
      } catch (const Error&) {
        continue;
      }
      ++played[policy.name];
      SCOPED_TRACE(std::to_string(stream) + ' ' + describe(*plan, *problem));
      expect_valid(*problem, *plan);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  for (const Policy& policy : policies()) EXPECT_GT(played[policy.name], 20) << policy.name;
}

}  // namespace
}  // namespace dos::sched::tier_replay_test

// SPDX-License-Identifier: Apache-2.0
// What must hold for every policy of the registry on any machine and model. A new policy is tested
// here without a line more.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "problems.hpp"
#include "sanitized.hpp"
#include "sched/policy.hpp"
#include "sched/policy_registry.hpp"
#include "sched/replay.hpp"
#include "tracks.hpp"

namespace dos::sched::invariants_test {
namespace {

constexpr std::uint64_t kProblems = test::cases(2000);
/// Times are sums of some hundred steps: their rounding stays far below.
constexpr double kRounding = 1e-6;

std::optional<Plan> plan_or_nothing(const char* policy, const Problem& problem) {
  try {
    return make_plan(policy, problem);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Index count_of(const Replay& replay, Work work, Index subgroup) {
  return std::count_if(
      replay.activities.begin(), replay.activities.end(),
      [&](const Activity& each) { return each.work == work && each.subgroup == subgroup; });
}

void expect_each_subgroup_once(const Problem& problem, const Plan& plan, const Replay& replay) {
  const bool gpu = problem.gpus() > 0;
  for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
    const auto subgroup = static_cast<Index>(i);
    const bool cpu = is_on_cpu(plan.assignments[i]);
    const Index streamed = is_streamed(plan.assignments[i]) ? 1 : 0;
    const Index weight = cpu && gpu && problem.cost.weight.value() > 0 ? 1 : 0;
    const Index gradient = cpu && gpu && problem.cost.gradient.value() > 0 ? 1 : 0;
    const bool stays = is_resident(plan.assignments[i]);
    const Index gradient_in = stays && problem.cost.host_gradient.value() > 0 ? 1 : 0;
    const Index parameter_out = stays && problem.cost.host_parameter.value() > 0 ? 1 : 0;
    ASSERT_EQ(count_of(replay, Work::kCpuUpdate, subgroup), cpu ? 1 : 0);
    ASSERT_EQ(count_of(replay, Work::kGpuUpdate, subgroup), cpu ? 0 : 1);
    ASSERT_EQ(count_of(replay, Work::kStateIn, subgroup), streamed);
    ASSERT_EQ(count_of(replay, Work::kStateOut, subgroup), streamed);
    ASSERT_EQ(count_of(replay, Work::kWeightIn, subgroup), weight);
    ASSERT_EQ(count_of(replay, Work::kGradientOut, subgroup), gradient);
    ASSERT_EQ(count_of(replay, Work::kGradientIn, subgroup), gradient_in);
    ASSERT_EQ(count_of(replay, Work::kParameterOut, subgroup), parameter_out);
  }
}

void expect_order_of_a_subgroup(const Replay& replay) {
  std::map<std::pair<Index, Work>, Activity> found;
  for (const Activity& each : replay.activities) found[{each.subgroup, each.work}] = each;
  const auto before = [&](Index subgroup, Work first, Work then) {
    const auto a = found.find({subgroup, first});
    const auto b = found.find({subgroup, then});
    if (a == found.end() || b == found.end()) return;
    ASSERT_LE(a->second.end.value(), b->second.start.value() * (1 + 1e-12));
  };
  for (const auto& [key, activity] : found) {
    before(key.first, Work::kStateIn, Work::kGpuUpdate);
    before(key.first, Work::kGradientIn, Work::kGpuUpdate);
    before(key.first, Work::kGpuUpdate, Work::kStateOut);
    before(key.first, Work::kGpuUpdate, Work::kParameterOut);
    before(key.first, Work::kGradientOut, Work::kCpuUpdate);
    before(key.first, Work::kCpuUpdate, Work::kWeightIn);
  }
}

void expect_memory_kept(const Problem& problem, const Plan& plan, const Replay& replay) {
  for (Index g = 0; g < problem.gpus(); ++g) {
    const auto gpu = static_cast<std::size_t>(g);
    units::Bytes resident{0};
    for (const Index i : plan.gpu_order(g))
      if (is_resident(plan.assignments[static_cast<std::size_t>(i)]))
        resident += problem.held_bytes(i);
    const double allowed = problem.memory[gpu].update.value() * (1 + 1e-9);
    ASSERT_LE(resident.value(), problem.memory[gpu].resident.value() * (1 + 1e-9));
    ASSERT_LE(replay.memory_peak[gpu].value(), allowed);
    // What came went again.
    ASSERT_NEAR(replay.memory[gpu].back().bytes.value(), resident.value(), 1e-6 * allowed + 1e-6);
    Index slots = 0;
    std::vector<std::pair<double, int>> changes;
    for (const Activity& each : replay.activities) {
      if (each.tier != g) continue;
      if (each.work == Work::kStateIn) changes.emplace_back(each.start.value(), 1);
      if (each.work == Work::kStateOut) changes.emplace_back(each.end.value(), -1);
    }
    std::sort(changes.begin(), changes.end());
    for (const auto& [time, change] : changes) {
      slots += change;
      ASSERT_LE(slots, plan.window[gpu]);
    }
  }
}

TEST(Invariants, HoldForEveryPolicyOnRandomProblems) {
  const Philox random(3);
  std::map<std::string, int> planned;
  for (std::uint64_t stream = 0; stream < kProblems; ++stream) {
    const Problem problem = test::random_problem(random, stream);
    for (const Policy& policy : policies()) {
      const auto plan = plan_or_nothing(policy.name, problem);
      if (!plan) continue;
      ++planned[policy.name];
      const Replay replayed = replay(problem, *plan, /*record=*/true);
      SCOPED_TRACE(fmt::format("problem {}, {}", stream, describe(*plan, problem)));
      expect_each_subgroup_once(problem, *plan, replayed);
      test::expect_no_overlap(problem, replayed);
      expect_order_of_a_subgroup(replayed);
      expect_memory_kept(problem, *plan, replayed);
      ASSERT_GE(replayed.makespan.value(), plan->bound.time.value() * (1 - kRounding));
      ASSERT_LE(replayed.first_ready, replayed.makespan);
      ASSERT_EQ(plan->time, replayed.update_end);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  for (const Policy& policy : policies())
    EXPECT_GT(planned[policy.name], static_cast<int>(kProblems / 4)) << policy.name;
  EXPECT_EQ(planned["dos"], static_cast<int>(kProblems));
  EXPECT_EQ(planned["zero-offload"], static_cast<int>(kProblems));
}

TEST(Invariants, DosIsNotSlowerThanAnyOther) {
  const Philox random(4);
  for (std::uint64_t stream = 0; stream < kProblems; ++stream) {
    const Problem problem = test::random_problem(random, stream);
    const Plan dos = make_plan("dos", problem);
    for (const Policy& policy : policies()) {
      const auto other = plan_or_nothing(policy.name, problem);
      // Stricter than "one subgroup": ties within rounding only.
      if (!other) continue;
      ASSERT_LE(dos.time.value(), other->time.value() * (1 + kRounding))
          << stream << ' ' << policy.name;
    }
  }
}

/// The published code's rules (lockstep, one buffer, separate passes) end on any problem too.
TEST(Invariants, HoldForThePublishedCode) {
  const Philox random(7);
  int planned = 0;
  for (std::uint64_t stream = 0; stream < kProblems; ++stream) {
    Problem problem = test::random_problem(random, stream);
    if (problem.gpus() != 1) continue;
    problem.rates.published = {.downcast = problem.rates.cpu_update * 2,
                               .blocking_flush = problem.rates.cpu_update,
                               .gpu_update = problem.rates.gpus[0].update * 0.5};
    for (const char* policy : {"dos-stride", "zero-offload", "twinflow"}) {
      PolicyOptions options{.published = true};
      options.stride = 2 + static_cast<Index>(stream % 9);
      std::optional<Plan> plan;
      try {
        plan = make_plan(policy, problem, options);
      } catch (const Error&) {
        continue;
      }
      ++planned;
      const Replay replayed = replay(problem, *plan, /*record=*/true);
      SCOPED_TRACE(fmt::format("problem {}, {}", stream, describe(*plan, problem)));
      expect_each_subgroup_once(problem, *plan, replayed);
      test::expect_no_overlap(problem, replayed);
      expect_order_of_a_subgroup(replayed);
      expect_memory_kept(problem, *plan, replayed);
      ASSERT_GE(replayed.makespan.value(), plan->bound.time.value() * (1 - kRounding));
      ASSERT_LE(replayed.update_end, replayed.makespan);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_GT(planned, static_cast<int>(kProblems / 2));
}

/// With many small subgroups, no latencies and memory to spare, whole subgroups, fill and drain
/// cost little: what is lost against the bound is at most a few subgroups on each resource.
TEST(Invariants, DosComesCloseToTheBound) {
  const Philox random(5);
  for (std::uint64_t stream = 0; stream < test::cases<std::uint64_t>(300); ++stream) {
    Problem problem = test::random_problem(random, stream);
    problem.subgroups.assign(400, {1'000'000, 0});
    problem.rates.transfer_latency = problem.rates.task_latency = units::Seconds(0);
    problem.rates.cpu_worker =
        problem.rates.cpu_update / static_cast<double>(problem.rates.cpu_workers);
    for (perfmodels::GpuRates& gpu : problem.rates.gpus) {
      gpu = problem.rates.gpus.front();  // as in a node
      gpu.h2d_cpu_busy = gpu.h2d;
      gpu.d2h_cpu_busy = gpu.d2h;
      gpu.both_cpu_busy = gpu.both;
    }
    for (StateMemory& memory : problem.memory) memory = {units::gigabytes(100), units::Bytes(0)};
    const Plan dos = make_plan("dos", problem);
    EXPECT_GE(dos.bound.time / dos.time, 0.8) << stream << ' ' << describe(dos, problem);
  }
}

TEST(Invariants, ManySubgroupsAreNoObstacle) {
  const Philox random(6);
  Problem problem = test::random_problem(random, 1);
  problem.subgroups.assign(100'000, {100'000, 0});
  const Plan plan = make_plan("zero-offload", problem);
  EXPECT_GT(plan.time.value(), 0);
}

}  // namespace
}  // namespace dos::sched::invariants_test

// SPDX-License-Identifier: Apache-2.0
// Who runs what, in virtual time: plans that hold, plans that go wrong, and windows.
#include "sched_starpu/dispatch.hpp"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <memory>

#include "sched/policy_registry.hpp"
#include "sched_starpu/simulated_step.hpp"

namespace dos::sched_starpu::dispatch_test {
namespace {

constexpr Index kSubgroups = 60;
/// Of sums of some hundred durations.
constexpr double kRounding = 1e-9;

/// A device, or one worker of it, takes `factor` times as long for a subgroup as planned from
/// `since` seconds of the step on. A GPU is planned by its copies, so its kernels take that.
struct Slow {
  Device device;
  Index worker = -1;  ///< -1: all
  double since = 0;
  double factor = 10;
};

double planned_seconds(const SimulatedNode& node, Device device) {
  return device.is_cpu() ? node.cpu_update : std::max(node.kernel, node.copy);
}

SimulatedProgram::Disturbance slow_down(const SimulatedNode& node, const Slow& slow) {
  return [=](Device device, Index worker, double at, double seconds) {
    const bool hit = device == slow.device && (slow.worker < 0 || worker == slow.worker);
    return hit && at >= slow.since ? slow.factor * planned_seconds(node, device) : seconds;
  };
}

/// Subgroups a second of the whole node while a device is slow.
double rate_with(const SimulatedNode& node, const Slow& slow) {
  double rate = 0;
  for (Index worker = 0; worker < node.cpu_workers; ++worker) {
    const bool hit = slow.device.is_cpu() && (slow.worker < 0 || worker == slow.worker);
    rate += 1 / (node.cpu_update * (hit ? slow.factor : 1));
  }
  for (Index gpu = 0; gpu < node.gpus; ++gpu)
    rate += 1 / (planned_seconds(node, {.gpu = gpu}) * (slow.device.gpu == gpu ? slow.factor : 1));
  return rate;
}

/// The latest end: what is left when the device becomes slow is done at the rates that hold then,
/// but for one subgroup, the slowest there is, with its copies. What a GPU has prefetched stays
/// with it.
double latest_end(const SimulatedNode& node, const Slow& slow, double undisturbed, Index window) {
  const double before = kSubgroups / undisturbed;
  const double left = std::max(0.0, kSubgroups - before * slow.since);
  const double one = slow.factor * planned_seconds(node, slow.device);
  const double held = slow.device.is_cpu() ? 0 : static_cast<double>(window) * one;
  return slow.since + std::max(left / rate_with(node, slow), held) + one + 2 * node.copy;
}

struct Disturbed {
  const char* name;
  SimulatedNode node;
  Slow slow;
};

class ADisturbance : public testing::TestWithParam<Disturbed> {};

INSTANTIATE_TEST_SUITE_P(
    Dispatch, ADisturbance,
    testing::Values(
        Disturbed{"GpuFromTheBeginning", {}, {.device = {.gpu = 0}, .since = 0}},
        Disturbed{"GpuFromAThird", {}, {.device = {.gpu = 0}, .since = 0.2}},
        Disturbed{"GpuAtTheEnd", {}, {.device = {.gpu = 0}, .since = 0.6}},
        Disturbed{"CpuFromTheBeginning", {}, {.device = {}, .since = 0}},
        Disturbed{"CpuFromTheMiddle", {}, {.device = {}, .since = 0.35}},
        Disturbed{"OneWorker", {}, {.device = {}, .worker = 2, .since = 0}},
        Disturbed{"OneWorkerFromTheMiddle", {}, {.device = {}, .worker = 0, .since = 0.3}},
        Disturbed{"GpuWithOneWorker", {.cpu_workers = 1}, {.device = {.gpu = 0}, .since = 0.3}},
        Disturbed{"SixteenWorkers", {.cpu_workers = 16}, {.device = {}, .since = 0.1}},
        Disturbed{
            "GpuWithSixteenWorkers", {.cpu_workers = 16}, {.device = {.gpu = 0}, .since = 0.1}},
        Disturbed{"OneOfTwoGpus", {.gpus = 2}, {.device = {.gpu = 1}, .since = 0.1}},
        Disturbed{"OneOfFourGpusWithoutLinkLimit",
                  {.gpus = 4, .kernel = 0.03, .copy = 0.01},
                  {.device = {.gpu = 2}, .since = 0.1}},
        Disturbed{
            "CpuBesideASlowLink", {.cpu_workers = 3, .copy = 0.1}, {.device = {}, .since = 0.2}}),
    [](const auto& each) { return each.param.name; });

TEST_P(ADisturbance, DelaysAStepByOneSubgroupAtMost) {
  const auto& [name, node, slow] = GetParam();
  SimulatedProgram program("dos", {.residents = false}, node, kSubgroups);
  double undisturbed = 0;
  for (int i = 0; i < 3; ++i) undisturbed = program.step().end;
  Index window = 0;
  for (Index gpu = 0; gpu < node.gpus; ++gpu)
    window = std::max(window, program.board().plans().limits(gpu).window);
  const SimulatedStep step = program.step(slow_down(node, slow));
  EXPECT_EQ(step.updates, kSubgroups);
  EXPECT_LE(step.end, latest_end(node, slow, undisturbed, window) * (1 + kRounding));
}

bool has_residents(const UpdateBoard& board) {
  for (Index i = 0; i < kSubgroups; ++i)
    if (board.planned(i).is_resident) return true;
  return false;
}

TEST(Dispatch, AGpuThatIsLateGivesResidentsAway) {
  const SimulatedNode node{.kernel = 0.02};
  const Slow slow{.device = {.gpu = 0}, .since = 0.1, .factor = 20};
  SimulatedProgram program("dos", {}, node, kSubgroups);
  double undisturbed = 0;
  for (int i = 0; i < 3; ++i) undisturbed = program.step().end;
  ASSERT_TRUE(has_residents(program.board()));
  const SimulatedStep step = program.step(slow_down(node, slow));
  EXPECT_EQ(step.updates, kSubgroups);
  // Residents wait for their turn in the window, up to Tuning{}.residents_at_once of them.
  EXPECT_LE(step.end, latest_end(node, slow, undisturbed, Tuning{}.residents_at_once));
  // Without help two thirds of all would be the GPU's.
  EXPECT_LT(step.end, 0.8 * kSubgroups * 2 / 3 * 0.02 * 20);
}

TEST(Dispatch, ResidentsStayWithAGpuThatIsInTime) {
  SimulatedProgram program("dos", {}, {.kernel = 0.02}, kSubgroups);
  for (int i = 0; i < 5; ++i) program.step();
  EXPECT_EQ(program.board().report().steps.back().moved, 0);
}

bool anything(starpu_task*) {
  return true;
}

/// A GPU, whose window holds one streamed update, and a CPU with two workers.
class OneGpu : public testing::Test {
 protected:
  OneGpu() {
    Surroundings around{.cpu_workers = 2, .gpus = {}, .transfer_latency = units::Seconds(0)};
    around.gpus.push_back({.h2d = units::BytesPerSecond(1e9),
                           .d2h = units::BytesPerSecond(1e9),
                           .memory = {.update = units::Bytes(1e9), .resident = units::Bytes(1e9)}});
    board_ = std::make_unique<UpdateBoard>("dos", sched::PolicyOptions{}, around);
    board_->place({.subgroup = this, .params = 1, .priority = 0, .cost = {}}, NoLock());
    for (Index group : {0, 1}) dispatch_.add_group({.gpu = group - 1});
    for (Index group : {0, 0, 1}) dispatch_.add_worker(group);
  }
  /// The i-th in the order of all.
  void push(Index i, Index group, bool resident) {
    notes_[static_cast<std::size_t>(i)] = {.group = group,
                                           .subgroup = i,
                                           .params = 1,
                                           .is_resident = resident,
                                           .travels = group > 0 && !resident};
    dispatch_.push_update({0, static_cast<std::uint64_t>(i)}, notes_[static_cast<std::size_t>(i)],
                          *board_, 0);
  }
  /// What the group lets in, by its place in the order, until it has no room.
  std::vector<Index> admit(Index group) {
    std::vector<Index> admitted;
    while (auto node = dispatch_.admit(group, *board_, 0, anything)) {
      admitted.push_back(node.mapped()->subgroup);
      dispatch_.admitted(std::move(node));
    }
    return admitted;
  }

  Dispatch dispatch_{/*adapts=*/false, /*most_streamed=*/1};
  std::unique_ptr<UpdateBoard> board_;
  std::array<TaskNote, 64> notes_{};
};

TEST_F(OneGpu, StatesAreFetchedWhileResidentsWaitForTheirTurn) {
  const Index residents = 2 * Tuning{}.residents_at_once;
  for (Index i = 0; i < residents; ++i) push(i, 1, /*resident=*/true);
  push(residents, 1, /*resident=*/false);
  const std::vector<Index> admitted = admit(1);
  EXPECT_EQ(std::ssize(admitted), Tuning{}.residents_at_once + 1);
  EXPECT_EQ(admitted.back(), residents);
}

TEST_F(OneGpu, ResidentsRunWhileStatesAreFetched) {
  push(0, 1, /*resident=*/false);
  push(1, 1, /*resident=*/false);
  push(2, 1, /*resident=*/true);
  EXPECT_THAT(admit(1), testing::ElementsAre(0, 2)) << "in order, and past what has no room";
  EXPECT_EQ(dispatch_.take(1, 0, board_.get(), 0, anything)->subgroup, 0);
  EXPECT_EQ(dispatch_.take(1, 0, board_.get(), 0, anything)->subgroup, 2);
  EXPECT_EQ(dispatch_.take(1, 0, board_.get(), 0, anything), nullptr) << "no room yet";
  EXPECT_TRUE(dispatch_.ended(notes_[0], 1, 1));
  EXPECT_THAT(admit(1), testing::IsEmpty()) << "its states are still there";
  dispatch_.returned(1, 1);
  EXPECT_THAT(admit(1), testing::ElementsAre(1));
}

TEST_F(OneGpu, GradientsOfTheCpuAreFetchedThreeRoundsAhead) {
  for (Index i = 0; i < 10; ++i) push(i, 0, /*resident=*/false);
  EXPECT_THAT(admit(0), testing::ElementsAre(0, 1, 2, 3, 4, 5)) << "three rounds of two workers";
  for (Index i : {0, 1}) EXPECT_EQ(dispatch_.take(0, i, board_.get(), 0, anything)->subgroup, i);
  EXPECT_THAT(admit(0), testing::IsEmpty()) << "those that run count";
  dispatch_.ended(notes_[0], 1, 1);
  EXPECT_THAT(admit(0), testing::ElementsAre(6));
}

TEST(Dispatch, WithoutAGpuNothingIsFetchedAhead) {
  Dispatch dispatch(/*adapts=*/true, /*most_streamed=*/1);
  dispatch.add_group({});
  dispatch.add_worker(0);
  const UpdateBoard board("dos", {}, {.cpu_workers = 1, .gpus = {}, .transfer_latency = {}});
  TaskNote note{.subgroup = 0, .params = 1};
  dispatch.push_update({0, 0}, note, board, 0);
  EXPECT_TRUE(dispatch.admit(0, board, 0, anything).empty());
  EXPECT_EQ(dispatch.take(0, 0, &board, 0, anything), &note);
}

class EveryPolicy : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Dispatch, EveryPolicy, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const sched::Policy& policy : sched::policies())
                             names.emplace_back(policy.name);
                           return names;
                         }()),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::ranges::replace(text, '-', '_');
                           return text;
                         });

TEST_P(EveryPolicy, OnlyDosDepartsFromItsPlan) {
  for (const bool residents : {false, true}) {
    const SimulatedNode node{.gpus = 2};
    // 30 on each GPU, 10 of which have run when one becomes slow: more are left than the window
    // holds, where nobody may take them.
    constexpr Index subgroups = 2 * kSubgroups;
    SimulatedProgram program(GetParam(), {.stride = 2, .residents = residents}, node, subgroups);
    for (int i = 0; i < 3; ++i) program.step();
    program.step(slow_down(node, {.device = {.gpu = 0}, .since = 0.05, .factor = 50}));
    // Where the plan holds it is kept to, though a fixed stride leaves devices without work.
    EXPECT_EQ(program.board().report().steps.back().moved, 0) << residents;
    EXPECT_EQ(program.step().updates, subgroups);
    const StepReport disturbed = program.board().report().steps.back();
    EXPECT_EQ(disturbed.executed_gpu.value(),
              (disturbed.planned_gpu - disturbed.to_cpu + disturbed.to_gpu).value());
    EXPECT_EQ(disturbed.overdue, disturbed.moved);
    if (GetParam() != "dos") {
      EXPECT_EQ(disturbed.moved, 0) << residents;
      EXPECT_EQ(disturbed.executed_gpu.value(), disturbed.planned_gpu.value());
    } else {
      EXPECT_GT(disturbed.moved, 0) << residents;
    }
  }
}

// States of two thirds of the subgroups come to stay. Idle workers that took them, because they
// take longer than once they are there, would keep them away for ever.
TEST(Dispatch, ResidentsComeHomeAndNobodyTakesThem) {
  constexpr double kStates = 12.0 * SimulatedProgram::kParams;
  for (const double copy : {0.02, 0.08, 0.3}) {
    SCOPED_TRACE(copy);
    const SimulatedNode node{.gpus = 2, .copy = copy, .memory = kStates * 20};
    SimulatedProgram program("dos", {}, node, /*subgroups=*/60);
    for (int i = 0; i < 10; ++i) program.step();
    const std::vector<StepReport> steps = program.board().report().steps;
    for (const StepReport& step : steps) EXPECT_EQ(step.moved, 0) << step.step;
    Index residents = 0;
    Index streamed = 0;
    for (const sched::Assignment& each : program.board().plans().plan()->assignments) {
      residents += sched::is_resident(each) ? 1 : 0;
      streamed += sched::is_streamed(each) ? 1 : 0;
    }
    EXPECT_GE(residents, 20);
    EXPECT_EQ(steps.back().needed[0].out.value() + steps.back().needed[1].out.value(),
              kStates * static_cast<double>(streamed))
        << "what stays does not travel";
  }
}

TEST_P(EveryPolicy, WindowAndMemoryAreNeverExceeded) {
  // A subgroup has 12 MB of states.
  for (const double slots : {1.0, 2.0, 3.0, 5.0, 100.0})
    for (const bool residents : {false, true})
      for (const double copy : {0.002, 0.02, 0.2}) {
        const SimulatedNode node{.copy = copy, .memory = slots * 12.5e6};
        SimulatedProgram program(GetParam(), {.stride = 2, .residents = residents}, node,
                                 kSubgroups);
        for (int i = 0; i < 4; ++i) {
          const SimulatedStep step = program.step();
          EXPECT_EQ(step.updates, kSubgroups);
          if (i == 0) continue;
          EXPECT_LE(step.most_streamed, program.board().plans().limits(0).window);
          EXPECT_LE(step.most_slots, program.board().plans().limits(0).slots);
          EXPECT_LE(step.most_residents, Tuning{}.residents_at_once);
        }
      }
}

TEST(Dispatch, OtherTasksAndUpdatesOfTheCpuGoByPriority) {
  UpdateBoard board("dos", {}, {});
  Dispatch dispatch(/*adapts=*/true, 0);
  dispatch.add_group({});
  dispatch.add_worker(0);
  TaskNote low;
  TaskNote update{.subgroup = 0, .params = 1};
  TaskNote high;
  dispatch.push({1, 0}, low);
  dispatch.push_update({2, 1}, update, board, 0);
  dispatch.push({3, 2}, high);
  const auto yes = [](starpu_task* /*task*/) { return true; };
  EXPECT_EQ(dispatch.take(0, 0, &board, 0, yes), &high);
  EXPECT_EQ(dispatch.take(0, 0, &board, 0, yes), &update);
  EXPECT_EQ(dispatch.take(0, 0, &board, 0, yes), &low);
  EXPECT_EQ(dispatch.take(0, 0, &board, 0, yes), nullptr);
}

TEST(Dispatch, TasksThatAWorkerCannotRunStay) {
  Dispatch dispatch(/*adapts=*/true, 0);
  dispatch.add_group({});
  dispatch.add_worker(0);
  TaskNote note;
  dispatch.push({1, 0}, note);
  EXPECT_EQ(dispatch.take(0, 0, nullptr, 0, [](starpu_task*) { return false; }), nullptr);
  EXPECT_EQ(dispatch.take(0, 0, nullptr, 0, [](starpu_task*) { return true; }), &note);
}

}  // namespace
}  // namespace dos::sched_starpu::dispatch_test

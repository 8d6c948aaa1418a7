// SPDX-License-Identifier: Apache-2.0
// When a device without work takes an update that waits elsewhere: where the other is late, and by
// what it still has to do, kernel by kernel and copy by copy.
#include <gmock/gmock.h>

#include <array>

#include "sched_starpu/dispatch.hpp"

namespace dos::sched_starpu::dispatch_help_test {
namespace {

constexpr Index kParams = 1'000'000;
constexpr Index kCpu = 0;
constexpr Index kGpu = 1;
/// Seconds after the updates have come: whoever still has some is late.
constexpr double kLater = 1e3;

bool anything(starpu_task* /*task*/) {
  return true;
}

Surroundings node_with(Index cpu_workers, double memory) {
  Surroundings around{.cpu_workers = cpu_workers, .gpus = {}, .transfer_latency = {}};
  // 12 bytes of states a parameter: 12 ms each way for a subgroup.
  around.gpus.push_back(
      {.h2d = units::BytesPerSecond(1e9),
       .d2h = units::BytesPerSecond(1e9),
       .memory = {.update = units::Bytes(memory), .resident = units::Bytes(memory)}});
  return around;
}

/// CPU workers that take `cpu_ms` an update and a GPU whose kernel takes 1 ms, its copies 12 ms.
class Helping {
 public:
  Helping(Index cpu_workers, double cpu_ms, bool is_planned = true, double memory = 1e9)
      : board_("dos", {}, node_with(cpu_workers, memory)) {
    board_.suggest(kParams, {}, units::Seconds(cpu_ms * 1e-3));
    board_.suggest(kParams, {.gpu = 0}, units::Seconds(1e-3));
    // The second step has a plan. Of all updates that have to come, one has: everybody may help.
    for (int step = 0; step < (is_planned ? 2 : 1); ++step)
      board_.place({.subgroup = this, .params = kParams, .priority = 0, .cost = {}}, NoLock());
    for (const Index group : {kCpu, kGpu}) dispatch_.add_group({.gpu = group - 1});
    for (Index i = 0; i < cpu_workers; ++i) dispatch_.add_worker(kCpu);
    dispatch_.add_worker(kGpu);
  }

  void push(Index group, Index count, bool resident = false, Index params = kParams) {
    for (; count > 0; --count) {
      TaskNote& note = notes_.at(pushed_);
      note = {.group = group,
              .subgroup = static_cast<Index>(pushed_),
              .params = params,
              .is_resident = resident,
              .travels = group == kGpu && !resident};
      dispatch_.push_update({0, pushed_++}, note, board_, 0);
    }
  }
  /// What an idle worker takes, first of its own group.
  TaskNote* take(Index group, double now = kLater) {
    return dispatch_.take(group, 0, &board_, now, anything);
  }
  void end(TaskNote& note, double now) { dispatch_.ended(note, 1, now); }
  /// What the group lets into its window, until it has no room.
  Index admit(Index group, double now = kLater) {
    Index admitted = 0;
    while (auto node = dispatch_.admit(group, board_, now, anything)) {
      ++admitted;
      dispatch_.admitted(std::move(node));
    }
    return admitted;
  }

 private:
  UpdateBoard board_;
  Dispatch dispatch_{/*adapts=*/true, /*most_streamed=*/1};
  std::array<TaskNote, 256> notes_{};
  std::size_t pushed_ = 0;
};

// The CPU, with nothing to do, would need 12 ms for what ends on the GPU after 1.2 s: a plan that
// says so, for a share that a user has fixed, has not gone wrong.
TEST(DispatchHelp, ADeviceThatIsInTimeKeepsItsUpdates) {
  Helping node(1, /*cpu_ms=*/12);
  node.push(kGpu, 100);
  EXPECT_EQ(node.take(kCpu, /*now=*/0), nullptr);
  EXPECT_EQ(node.take(kCpu, /*now=*/0.0119), nullptr) << "late by less than one update";
  EXPECT_NE(node.take(kCpu, /*now=*/0.0121), nullptr);
}

// One of ten updates took 30 ms instead of 12, and nine that take as long are left.
TEST(DispatchHelp, HowLateADeviceWillBeCounts) {
  Helping node(1, /*cpu_ms=*/12);
  node.push(kGpu, 10);
  node.admit(kGpu, /*now=*/0);
  TaskNote* first = node.take(kGpu, /*now=*/0);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(node.take(kCpu, /*now=*/0.012), nullptr);
  node.end(*first, /*now=*/0.030);
  TaskNote* last = node.take(kCpu, /*now=*/0.030);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->moved, MoveReason::kOverdue);
  EXPECT_FALSE(first->moved.has_value());
}

TEST(DispatchHelp, WhatIsStreamedCountsWithItsCopies) {
  Helping eight(1, /*cpu_ms=*/100);
  eight.push(kGpu, 8);
  EXPECT_EQ(eight.take(kCpu), nullptr) << "8 copies of 12 ms end before 100 ms";
  Helping nine(1, /*cpu_ms=*/100);
  nine.push(kGpu, 9);
  EXPECT_NE(nine.take(kCpu), nullptr) << "9 do not";
}

// Their kernels run while states are copied: 99 of 1 ms, where as many copies would take 1.2 s.
TEST(DispatchHelp, ResidentsCountWithTheirKernels) {
  Helping in_time(1, /*cpu_ms=*/100);
  in_time.push(kGpu, 98, /*resident=*/true);
  in_time.push(kGpu, 1);
  EXPECT_EQ(in_time.take(kCpu), nullptr) << "99 kernels of 1 ms end before 100 ms";
  Helping late(1, /*cpu_ms=*/100);
  late.push(kGpu, 100, /*resident=*/true);
  late.push(kGpu, 1);
  EXPECT_NE(late.take(kCpu), nullptr) << "101 do not";
}

// In their order: what waits in front of all residents is the GPU's next.
TEST(DispatchHelp, ResidentsBehindAnUpdateDoNotCount) {
  Helping node(1, /*cpu_ms=*/100);
  node.push(kGpu, 1);
  node.push(kGpu, 101, /*resident=*/true);
  EXPECT_EQ(node.take(kCpu), nullptr) << "12 ms end before 100 ms";
}

TEST(DispatchHelp, SmallUpdatesCountAsWhatTheyAre) {
  Helping node(1, /*cpu_ms=*/100);
  node.push(kGpu, 20, /*resident=*/false, kParams / 100);
  node.push(kGpu, 1);
  EXPECT_EQ(node.take(kCpu), nullptr) << "12 ms and twenty times 0.12 end before 100 ms";
}

// A larger one would take memory that the GPU needs for its own.
TEST(DispatchHelp, AGpuTakesWhatItHasRoomFor) {
  for (const bool fits : {true, false}) {
    Helping node(1, /*cpu_ms=*/100, /*is_planned=*/true, 12.0 * kParams * (fits ? 3 : 0.9));
    node.push(kCpu, 100);
    EXPECT_EQ(node.take(kGpu) != nullptr, fits) << fits;
  }
}

TEST(DispatchHelp, WhatIsInTheWindowCounts) {
  Helping node(1, /*cpu_ms=*/100);
  node.push(kGpu, 9);
  EXPECT_EQ(node.admit(kGpu), 1);
  EXPECT_NE(node.take(kCpu), nullptr) << "one at work and eight that wait are nine";
}

TEST(DispatchHelp, ResidentsStayWhereTheGpuIsNotLate) {
  Helping node(1, /*cpu_ms=*/1);
  node.push(kGpu, 200, /*resident=*/true);
  EXPECT_EQ(node.take(kCpu), nullptr);
}

// The GPU needs 12 ms in, 12 ms for its turn and 12 ms out: 36 ms. Two workers need a round of 15
// ms for two updates.
TEST(DispatchHelp, AGroupOfWorkersCountsInRounds) {
  Helping two_rounds(2, /*cpu_ms=*/15);
  two_rounds.push(kCpu, 4);
  EXPECT_EQ(two_rounds.take(kGpu), nullptr) << "30 ms";
  Helping three_rounds(2, /*cpu_ms=*/15);
  three_rounds.push(kCpu, 5);
  EXPECT_NE(three_rounds.take(kGpu), nullptr) << "45 ms: the third has one update";
}

// Its gradient is in host memory and on the GPU: nothing ties it to the CPU.
TEST(DispatchHelp, AnUpdateWhoseGradientCameAheadMayStillBeTaken) {
  Helping node(1, /*cpu_ms=*/100);
  node.push(kCpu, 3);
  EXPECT_EQ(node.admit(kCpu), 3);
  TaskNote* running = node.take(kCpu);
  ASSERT_NE(running, nullptr);
  EXPECT_EQ(running->subgroup, 0);
  TaskNote* last = node.take(kGpu);
  ASSERT_NE(last, nullptr) << "36 ms here, 300 ms there";
  EXPECT_EQ(last->subgroup, 2) << "the one that the CPU would come to last";
  EXPECT_EQ(last->group, kGpu);
  EXPECT_TRUE(last->travels);
  // What is gone makes room for the gradient of another.
  node.push(kCpu, 2);
  EXPECT_EQ(node.admit(kCpu), 1);
}

TEST(DispatchHelp, TheCpusNextStayWhereNobodyHasPlanned) {
  Helping node(1, /*cpu_ms=*/100, /*is_planned=*/false);
  node.push(kCpu, 3);
  EXPECT_EQ(node.admit(kCpu), 3);
  EXPECT_EQ(node.take(kGpu), nullptr);
}

TEST(DispatchHelp, WhatTheCpuHasNotAskedForGoesFirst) {
  Helping node(1, /*cpu_ms=*/100);
  node.push(kCpu, 5);
  EXPECT_EQ(node.admit(kCpu), 3) << "three rounds of one worker";
  EXPECT_EQ(node.take(kGpu)->subgroup, 4);
  EXPECT_EQ(node.take(kCpu)->subgroup, 0) << "in the order of all";
}

}  // namespace
}  // namespace dos::sched_starpu::dispatch_help_test

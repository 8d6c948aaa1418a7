// SPDX-License-Identifier: Apache-2.0
// Updates that go ahead of the norm, while backward has the GPU, and those beside forward.
#include <gtest/gtest.h>

#include <array>

#include "sched_starpu/dispatch.hpp"
#include "sched_starpu/update_program.hpp"

namespace dos::sched_starpu::beside_backward_test {
namespace {

constexpr double kUpdate = kParams / kCpuRate;  ///< seconds of a CPU worker
constexpr Index kWorkers = 8;

bool anything(const starpu_task* /*task*/) {
  return true;
}

/// A GPU and 8 CPU workers, of which a step is known, and a second begins, whose updates go ahead
/// if they have two banks.
class Node {
 public:
  explicit Node(bool has_room = true, Index banks = 2)
      : banks_(banks), program_("dos", around(has_room)), dispatch_(/*adapts=*/true, 0) {
    dispatch_.add_group({});
    for (Index i = 0; i < kWorkers; ++i) dispatch_.add_worker(0);
    dispatch_.add_group({.gpu = 0});
    dispatch_.add_worker(1);
    program_.step();
    program_.step();
  }

  /// All updates of a step come one by one within so many seconds.
  void step(double begin, double seconds) {
    for (Index i = 0; i < kSubgroups; ++i)
      arrive(i, begin + seconds * static_cast<double>(i) / (kSubgroups - 1));
    for (Index i = 0; i < kSubgroups; ++i)
      while (TaskNote* note = dispatch_.take(0, 0, &board(), begin + seconds, anything))
        dispatch_.ended(*note, 0, begin + seconds);
  }
  void arrive(Index i, double now) {
    const Index index = announce(board(), task(i));
    notes_[static_cast<std::size_t>(i)] = {.subgroup = index, .params = kParams};
    dispatch_.push_update({0, static_cast<std::uint64_t>(i)}, notes_[static_cast<std::size_t>(i)],
                          board(), now);
  }
  /// All updates have come, and the first comes again, where nobody has a task of them.
  void make_again() {
    for (Index i = 0; i < kSubgroups; ++i) announce(board(), task(i));
    UpdateTask again = task(0);
    again.is_redone = true;
    announce(board(), again);
  }
  /// A streamed update in the GPU's window.
  TaskNote& admit(Index i) {
    TaskNote& note = notes_[static_cast<std::size_t>(i)];
    note = {.group = 1, .subgroup = i, .params = kParams, .travels = true};
    dispatch_.push_update({0, 0}, note, board(), 0);
    ReadyTasks::Node node = dispatch_.admit(1, board(), 0, anything);
    EXPECT_FALSE(node.empty());
    dispatch_.admitted(std::move(node));
    return note;
  }

  /// A streamed update of the GPU that nobody has let into the window.
  void wait(Index i) {
    TaskNote& note = notes_[static_cast<std::size_t>(i)];
    note = {.group = 1, .subgroup = i, .params = kParams, .travels = true};
    dispatch_.push_update({0, 1}, note, board(), 0);
  }
  bool can_admit(Index i) {
    wait(i);
    return !dispatch_.admit(1, board(), 0, anything).empty();
  }

  UpdateBoard& board() { return program_.board; }
  Dispatch& dispatch() { return dispatch_; }

 private:
  const Index banks_;

  UpdateTask task(Index i) {
    UpdateTask task = program_.task(i);
    task.cost.banks = banks_;
    return task;
  }
  static Surroundings around(bool has_room) {
    Surroundings result = surroundings(1, 1e8);
    if (has_room) result.gpus[0].memory.resident = result.gpus[0].memory.update;
    return result;
  }

  Program program_;
  Dispatch dispatch_;
  std::array<TaskNote, kSubgroups> notes_{};
};

TEST(BesideBackward, TheCpuHasWhatItCanHide) {
  // 40 updates take 8 workers 5 rounds, and one more hides the last.
  for (const double rounds : {4.0, 7.0}) {
    Node node;
    node.step(/*begin=*/0, rounds * kUpdate);
    const double begin = 100;
    EXPECT_FALSE(node.dispatch().is_hidden_on_cpu(kUpdate, node.board(), begin))
        << "of a step that has not begun nobody knows the end";
    node.arrive(0, begin);
    EXPECT_EQ(node.dispatch().is_hidden_on_cpu(kUpdate, node.board(), begin), rounds > 6) << rounds;
    EXPECT_FALSE(node.dispatch().is_hidden_on_cpu(kUpdate, node.board(), begin + rounds * kUpdate));
  }
}

TEST(BesideBackward, AnUpdateWhoseStatesAreThereGoesFirst) {
  Node node;
  node.arrive(1, 0);
  ASSERT_TRUE(node.board().are_beside_backward());
  TaskNote& update = node.admit(2);
  EXPECT_TRUE(update.is_brief) << "40 us beside 600 of its copies";
  TaskNote backward{.group = 1};
  node.dispatch().push({100, 1}, backward);
  EXPECT_EQ(node.dispatch().take(1, 0, &node.board(), 0, anything), &update);
  EXPECT_EQ(node.dispatch().take(1, 0, &node.board(), 0, anything), &backward);
}

// Else the window is full of states that have come, and the link rests until forward is there.
TEST(BesideForward, AStreamedUpdateWhoseStatesAreThereGoesFirst) {
  for (const bool is_here : {true, false}) {
    Node node(/*has_room=*/true, /*banks=*/1);
    node.arrive(1, 0);
    ASSERT_FALSE(node.board().are_beside_backward());
    TaskNote& update = node.admit(2);
    ASSERT_TRUE(update.is_brief);
    TaskNote forward{.group = 1};
    node.dispatch().push({100, 1}, forward);
    const auto inputs = [&](const starpu_task* /*task*/) {
      return is_here ? Inputs::kHere : Inputs::kOnTheirWay;
    };
    TaskNote* const first = is_here ? &update : &forward;
    EXPECT_EQ(node.dispatch().take(1, 0, &node.board(), 0, anything, inputs), first);
  }
}

// Forward's next task is ready when the one that runs has ended: a worker that had taken an update
// whose states are still to come would keep it waiting.
TEST(BesideForward, NoWorkerWaitsForStatesWhileATaskRuns) {
  Node node(/*has_room=*/true, /*banks=*/1);
  node.arrive(1, 0);
  TaskNote& update = node.admit(2);
  Inputs states = Inputs::kOnTheirWay;
  const auto inputs = [&](const starpu_task* /*task*/) { return states; };
  const auto take = [&] { return node.dispatch().take(1, 0, &node.board(), 0, anything, inputs); };
  node.wait(3);
  node.dispatch().begins_other(1, 0, 0);
  EXPECT_EQ(take(), nullptr) << "nor is there another, for which the window has room";
  TaskNote forward{.group = 1};
  node.dispatch().push({100, 1}, forward);
  EXPECT_EQ(take(), &forward);
  states = Inputs::kNotAskedFor;
  EXPECT_EQ(take(), &update) << "nobody brings what a worker does not ask for";
}

TEST(BesideForward, AWorkerWithoutATaskWaitsForStates) {
  Node node(/*has_room=*/true, /*banks=*/1);
  node.arrive(1, 0);
  TaskNote& update = node.admit(2);
  const auto inputs = [&](const starpu_task* /*task*/) { return Inputs::kOnTheirWay; };
  node.dispatch().begins_other(1, 0, 0);
  node.dispatch().ended_other(1, 0, 0);
  EXPECT_EQ(node.dispatch().take(1, 0, &node.board(), 0, anything, inputs), &update)
      << "nothing else would make it look again";
}

TEST(BesideBackward, NoWorkerWaitsForStates) {
  Node node;
  node.arrive(1, 0);
  TaskNote& update = node.admit(2);
  const auto nothing = [](const starpu_task* /*task*/) { return Inputs::kOnTheirWay; };
  EXPECT_EQ(node.dispatch().take(1, 0, &node.board(), 0, anything, nothing), nullptr);
  EXPECT_EQ(node.dispatch().take(1, 0, &node.board(), update.latest, anything, nothing), &update)
      << "it may be that nobody brings them";
}

// StarPU forgets a prefetch for which there was no memory: nothing would wake the worker.
TEST(BesideBackward, AWorkerFetchesWhatNobodyAskedFor) {
  Node node;
  node.arrive(1, 0);
  TaskNote& update = node.admit(2);
  TaskNote backward{.group = 1};
  node.dispatch().push({100, 1}, backward);
  const auto forgotten = [](const starpu_task* /*task*/) { return Inputs::kNotAskedFor; };
  EXPECT_EQ(node.dispatch().take(1, 0, &node.board(), 0, anything, forgotten), &backward);
  EXPECT_EQ(node.dispatch().take(1, 0, &node.board(), 0, anything, forgotten), &update);
}

TEST(BesideBackward, WhatIsMadeAgainWaitsInTheWorker) {
  Node node;
  node.arrive(1, 0);
  TaskNote& update = node.admit(2);
  update.is_redone = true;
  const auto nothing = [](const starpu_task* /*task*/) { return Inputs::kOnTheirWay; };
  EXPECT_EQ(node.dispatch().take(1, 0, &node.board(), 0, anything, nothing), &update);
}

TEST(BesideBackward, OnlyMemoryThatBackwardLeavesIsUsed) {
  for (const bool has_room : {false, true}) {
    Node node(has_room);
    node.arrive(1, 0);
    EXPECT_GT(node.board().plans().limits(0).slots, 1) << "once activations are gone";
    EXPECT_EQ(node.board().plans().limits(0).beside > 1, has_room);
    node.admit(2);
    EXPECT_EQ(node.can_admit(3), has_room);
  }
}

TEST(BesideBackward, WhatIsMadeAgainUsesNoMore) {
  for (const bool has_room : {false, true}) {
    Node node(has_room);
    node.make_again();
    ASSERT_TRUE(node.board().subgroups().all_arrived());
    node.admit(2);
    EXPECT_EQ(node.can_admit(3), has_room);
  }
}

// What gradients take is free when some have left, not while they come, but for a few updates.
TEST(BesideBackward, GradientsHaveTheirMemory) {
  for (const double gradients : {0.0, 1e8}) {
    Surroundings around = surroundings(1, 1e8);
    around.gpus[0].memory.resident = around.gpus[0].memory.update;
    around.gpus[0].memory.gradients = units::Bytes(gradients);
    Program program("dos", around, {.residents = false});
    program.step();
    program.step();
    EXPECT_EQ(program.board.plans().limits(0).beside > Tuning{}.least_beside, gradients == 0);
  }
}

}  // namespace
}  // namespace dos::sched_starpu::beside_backward_test

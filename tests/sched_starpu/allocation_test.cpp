// SPDX-License-Identifier: Apache-2.0
// A worker that takes a task allocates nothing: it would hold up every other.
#include <gmock/gmock.h>

#include <vector>

#include "sched_starpu/counted_allocations.hpp"
#include "sched_starpu/dispatch.hpp"

namespace dos::sched_starpu::allocation_test {
namespace {

constexpr Index kTasks = 1000;
constexpr Index kParams = 1'000'000;

TEST(Dispatch, TakingATaskAllocatesNothing) {
  const units::BytesPerSecond link = units::gigabytes_per_second(20);
  const units::Bytes memory(1e12);
  UpdateBoard board(
      "dos", {},
      {.cpu_workers = 2,
       .gpus = {{.h2d = link, .d2h = link, .memory = {.update = memory, .resident = memory}}},
       .transfer_latency = {}});
  // Known rates: a worker without work looks for it elsewhere.
  board.suggest(kParams, {}, units::Seconds(0.01));
  board.suggest(kParams, {.gpu = 0}, units::Seconds(0.001));
  Dispatch dispatch(/*adapts=*/true, 0);
  dispatch.add_group({});
  dispatch.add_group({.gpu = 0});
  for (const Index group : {0, 0, 1}) dispatch.add_worker(group);
  std::vector<TaskNote> notes(static_cast<std::size_t>(kTasks));
  const auto arrive = [&](TaskNote& note, int priority) {
    const UpdateTask task{.subgroup = &note, .params = kParams, .priority = priority, .cost = {}};
    return board.place(task, NoLock()).index;
  };
  // The second step has a plan.
  for (Index i = 1; i < kTasks; i += 2)
    arrive(notes[static_cast<std::size_t>(i)], static_cast<int>(i % 7));
  for (Index i = 0; i < kTasks; ++i) {
    TaskNote& note = notes[static_cast<std::size_t>(i)];
    const int priority = static_cast<int>(i % 7);
    const auto arrival = static_cast<std::uint64_t>(i);
    note = {.seconds = 0.01, .params = kParams};
    if (i % 2 == 0) {
      dispatch.push({priority, arrival}, note);
      continue;
    }
    note.subgroup = arrive(note, priority);
    dispatch.push_update({priority, arrival}, note, board, 0);
  }
  const auto yes = [](const starpu_task* /*task*/) { return true; };
  const Index before = test::allocations();
  ASSERT_GT(before, kTasks) << "the count works";
  Index taken = 0;
  Index elsewhere = 0;
  for (bool some = true; some;) {
    some = false;
    for (const Index group : {0, 1}) {
      TaskNote* note = dispatch.take(group, 0, &board, static_cast<double>(taken), yes);
      if (note == nullptr) continue;
      some = true;
      ++taken;
      elsewhere += group;
      if (note->subgroup >= 0) dispatch.ended(*note, 1, static_cast<double>(taken));
    }
  }
  EXPECT_EQ(test::allocations(), before);
  EXPECT_EQ(taken, kTasks);
  EXPECT_GT(elsewhere, 0) << "the GPU helped";
}

}  // namespace
}  // namespace dos::sched_starpu::allocation_test

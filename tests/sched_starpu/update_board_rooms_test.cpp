// SPDX-License-Identifier: Apache-2.0
// What the streamed updates of a step may newly take of a GPU's memory.
#include <gmock/gmock.h>

#include <vector>

#include "sched_starpu/update_board.hpp"
#include "sched_starpu/update_program.hpp"

namespace dos::sched_starpu::update_board_rooms_test {
namespace {

using testing::IsEmpty;

constexpr double kStates = 12.0 * kParams;

TEST(Rooms, AreThoseOfThePlan) {
  Program program("dos", surroundings(1));
  program.step();
  EXPECT_THAT(program.board.rooms(), IsEmpty()) << "no plan yet";
  program.step();
  program.arrive(0);
  const std::vector<UpdateRoom> rooms = program.board.rooms();
  ASSERT_EQ(rooms.size(), 1U);
  EXPECT_TRUE(rooms[0].is_even);
  // Not what all streamed ones would take, each for itself.
  const GpuWindow::Limits limits = program.board.plans().limits(0);
  EXPECT_EQ(rooms[0].streaming.value(), kStates * static_cast<double>(limits.slots));
}

TEST(Rooms, AreEvenWhereMemoryOfOneFitsTheNext) {
  for (const bool allocates_the_largest : {false, true}) {
    Program program("dos", surroundings(1));
    const auto arrive = [&](Index i) {
      UpdateTask task = program.task(i);
      if (i % 2 != 0) task.params = kParams * 9 / 10;
      if (allocates_the_largest) task.room = kParams;
      return announce(program.board, task);
    };
    for (int step = 0; step < 2; ++step) {
      std::vector<Index> indices;
      for (Index i = 0; i < kSubgroups; ++i) indices.push_back(arrive(i));
      for (const Index index : indices) {
        const Device device = program.board.planned(index).device;
        const double rate = device.is_cpu() ? kCpuRate : kGpuRate;
        const Index params = program.board.subgroups().task(index).params;
        program.board.executed(index, device, units::Seconds(static_cast<double>(params) / rate));
      }
    }
    arrive(0);
    EXPECT_EQ(program.board.rooms().at(0).is_even, allocates_the_largest);
  }
}

TEST(Rooms, OfWhatStaysAreItsOwn) {
  Surroundings around = surroundings(1, kStates * 1000);
  around.gpus[0].memory.resident = around.gpus[0].memory.update;
  Program program("gpu-only", around);
  program.step();
  program.arrive(0);
  EXPECT_EQ(program.board.rooms().at(0).streaming.value(), 0);
}

TEST(Rooms, OfUpdatesBesideBackwardAreNotLimited) {
  UpdateBoard board("dos", {}, surroundings(1));
  board.suggest(kParams, {.gpu = 0}, units::Seconds(kParams / kGpuRate));
  const Program program("dos", surroundings(1));
  for (Index i = 0; i < kSubgroups; ++i) {
    announce(board, program.task(i));
    board.executed(i, {}, units::Seconds(kParams / kCpuRate));
  }
  announce(board, program.task(0));
  ASSERT_TRUE(board.prefers_earliest_end());
  EXPECT_THAT(board.rooms(), IsEmpty());
}

// Tasks of backward that have part of their data would wait for what is held, and updates for them.
TEST(Rooms, OfUpdatesThatGoAheadAreNotLimited) {
  Program program("gpu-only", surroundings(1, kStates * 1000));
  program.step();
  UpdateTask ahead = program.task(0);
  ahead.cost.banks = 2;
  announce(program.board, ahead);
  ASSERT_FALSE(program.board.prefers_earliest_end());
  EXPECT_THAT(program.board.rooms(), IsEmpty());
}

TEST(UpdateBoardRegistry, KnowsWhenAStepHasRun) {
  Program program("dos", surroundings(1));
  program.step();
  EXPECT_TRUE(program.board.subgroups().all_ran());
  const Index index = program.arrive(0);
  EXPECT_FALSE(program.board.subgroups().all_ran());
  program.board.executed(index, {}, units::Seconds(kParams / kCpuRate));
  EXPECT_FALSE(program.board.subgroups().all_ran()) << "others are to come";
}

TEST(UpdateBoardRegistry, KnowsWhenWhatIsMadeAgainHasRun) {
  Program program("dos", surroundings(1));
  program.step();
  UpdateTask again = program.task(0);
  again.is_redone = true;
  const Index index = announce(program.board, again);
  EXPECT_TRUE(program.board.subgroups().runs_again());
  EXPECT_FALSE(program.board.subgroups().all_ran());
  program.board.executed(index, {}, units::Seconds(kParams / kCpuRate), {}, /*is_redone=*/true);
  EXPECT_FALSE(program.board.subgroups().runs_again());
  EXPECT_TRUE(program.board.subgroups().all_ran());
}

}  // namespace
}  // namespace dos::sched_starpu::update_board_rooms_test

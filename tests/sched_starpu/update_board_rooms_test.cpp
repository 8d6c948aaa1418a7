// SPDX-License-Identifier: Apache-2.0
// What the updates of a step may newly take of a GPU's memory.
#include <gmock/gmock.h>

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
  EXPECT_EQ(rooms[0].arriving.value(), 0) << "nothing may stay";
  // Not what all streamed ones would take, each for itself.
  const GpuWindow::Limits limits = program.board.plans().limits(0);
  EXPECT_EQ(rooms[0].streaming.value(),
            kStates * static_cast<double>(limits.slots + limits.window));
}

TEST(Rooms, HoldResidentsUntilTheyAreThere) {
  Surroundings around = surroundings(1, kStates * 1000);
  around.gpus[0].memory.resident = around.gpus[0].memory.update;
  Program program("gpu-only", around);
  program.step();
  const double on_gpu = program.gpu_share() * kSubgroups;
  program.arrive(0);
  EXPECT_NEAR(program.board.rooms().at(0).arriving.value(), kStates * kSubgroups, 1e-3 * kStates)
      << on_gpu << " had been on the GPU to show its rate, and have left";
  for (Index i = 1; i < kSubgroups; ++i) program.arrive(i);
  for (Index i = 0; i < kSubgroups; ++i)
    program.board.executed(i, {.gpu = 0}, units::Seconds(kParams / kGpuRate));
  program.arrive(0);
  EXPECT_EQ(program.board.rooms().at(0).arriving.value(), 0);
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

TEST(UpdateBoardRegistry, KnowsWhenAStepHasRun) {
  Program program("dos", surroundings(1));
  program.step();
  EXPECT_TRUE(program.board.subgroups().all_ran());
  const Index index = program.arrive(0);
  EXPECT_FALSE(program.board.subgroups().all_ran());
  program.board.executed(index, {}, units::Seconds(kParams / kCpuRate));
  EXPECT_FALSE(program.board.subgroups().all_ran()) << "others are to come";
}

}  // namespace
}  // namespace dos::sched_starpu::update_board_rooms_test

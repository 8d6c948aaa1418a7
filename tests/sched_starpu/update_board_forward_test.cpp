// SPDX-License-Identifier: Apache-2.0
// When plans are for the end of a forward that begins beside the updates.
#include <gtest/gtest.h>

#include "sched_starpu/update_program.hpp"

namespace dos::sched_starpu::update_board_forward_test {
namespace {

/// Two steps beside which a GPU computes for so many seconds while updates come, and when all have.
bool plans_for_forward(double while_they_come, double when_all_have) {
  Surroundings around = surroundings(1);
  around.gpus[0].memory.resident = around.gpus[0].memory.update;
  Program program("dos", around);
  program.step();
  for (Index i = 0; i < kSubgroups; ++i) {
    program.arrive(i);
    if (i == 0) program.board.saw_other({.gpu = 0}, units::Seconds(while_they_come));
  }
  program.board.saw_other({.gpu = 0}, units::Seconds(when_all_have));
  program.arrive(0);
  return program.board.plans().is_for_forward();
}

TEST(UpdateBoardForward, IsPlannedForWhereUpdatesComeAtOnce) {
  EXPECT_FALSE(plans_for_forward(0, 0)) << "there is none";
  EXPECT_TRUE(plans_for_forward(0, 0.1));
  // The first layers may begin while the last updates come.
  EXPECT_TRUE(plans_for_forward(0.02, 0.1));
}

// Without clipping each update comes when its gradient is there: what then runs is backward.
TEST(UpdateBoardForward, IsNotWhatRunsWhileUpdatesCome) {
  EXPECT_FALSE(plans_for_forward(0.1, 0.1));
  EXPECT_FALSE(plans_for_forward(0.1, 0));
}

// Its last task has read what updates wrote; those behind it are backward's.
TEST(UpdateBoardForward, EndsWhereAllWeightsHaveBeenRead) {
  Surroundings around = surroundings(1);
  around.gpus[0].memory.resident = around.gpus[0].memory.update;
  Program program("dos", around);
  program.step();
  for (Index i = 0; i < kSubgroups; ++i)
    program.board.forward_watch().writes(program.arrive(i), program.gradient(i));
  for (Index i = 0; i < kSubgroups; ++i) {
    program.board.saw_other({.gpu = 0}, units::Seconds(0.01));
    program.board.forward_watch().read(program.gradient(i));
  }
  program.board.saw_other({.gpu = 0}, units::Seconds(5));
  program.arrive(0);
  EXPECT_EQ(std::ssize(program.board.rates().forward()), kSubgroups);
}

// Their updates have two banks: they come beside backward, and forward is behind the last one.
TEST(UpdateBoardForward, IsPlannedForWhereUpdatesGoAhead) {
  Surroundings around = surroundings(1);
  around.gpus[0].memory.resident = around.gpus[0].memory.update;
  Program program("dos", around);
  const auto arrive = [&](Index i) {
    UpdateTask task = program.task(i);
    task.cost.banks = 2;
    return announce(program.board, task);
  };
  for (int step = 0; step < 2; ++step) {
    for (Index i = 0; i < kSubgroups; ++i) {
      program.board.forward_watch().writes(arrive(i), program.gradient(i));
      program.board.saw_other({.gpu = 0}, units::Seconds(0.03));
    }
    for (const Device device : {Device{}, Device{.gpu = 0}})
      program.board.executed(0, device, units::Seconds(kParams / kCpuRate), {}, false);
    for (Index i = 0; i < kSubgroups; ++i) {
      program.board.saw_other({.gpu = 0}, units::Seconds(0.01));
      program.board.forward_watch().read(program.gradient(i));
    }
    program.board.saw_other({.gpu = 0}, units::Seconds(5));
  }
  arrive(0);
  ASSERT_TRUE(program.board.are_beside_backward());
  const std::vector<units::Seconds> forward = program.board.rates().forward();
  ASSERT_GE(std::ssize(forward), kSubgroups - 1);
  EXPECT_NEAR(forward.front().value(), 0.01, 1e-3);
  EXPECT_TRUE(program.board.plans().is_for_forward());
}

}  // namespace
}  // namespace dos::sched_starpu::update_board_forward_test

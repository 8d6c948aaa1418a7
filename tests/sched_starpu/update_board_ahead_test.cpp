// SPDX-License-Identifier: Apache-2.0
// Plans that are made before their step begins.
#include <gtest/gtest.h>

#include "sched_starpu/update_program.hpp"

namespace dos::sched_starpu::update_board_ahead_test {
namespace {

/// Counts how often it is given up: once a plan.
struct CountingLock {
  void lock() {}
  void unlock() { ++given_up; }
  int given_up = 0;
};

/// Three steps, behind which rates have changed, so that the fourth needs another plan.
struct WithChangedRates : Program {
  WithChangedRates() : Program("dos", surroundings(1)) {
    step();
    step();
    step(2 * kCpuRate);
  }
};

std::vector<Device> begin_step(Program& program, CountingLock& lock) {
  std::vector<Device> devices;
  for (Index i = 0; i < kSubgroups; ++i)
    devices.push_back(program.board.place(program.task(i), lock).place.device);
  return devices;
}

TEST(UpdateBoardAhead, AStepTakesThePlanThatWasMadeForIt) {
  WithChangedRates waits;
  CountingLock waiting;
  const std::vector<Device> expected = begin_step(waits, waiting);
  ASSERT_EQ(waiting.given_up, 1) << "a plan was due";

  WithChangedRates program;
  ASSERT_TRUE(program.board.may_plan_ahead());
  CountingLock lock;
  program.board.plan_ahead(lock);
  EXPECT_EQ(lock.given_up, 1);
  EXPECT_FALSE(program.board.may_plan_ahead()) << "once a step";
  EXPECT_EQ(begin_step(program, lock), expected);
  EXPECT_EQ(lock.given_up, 1) << "no update has waited";
  EXPECT_EQ(program.board.plans().in_words(), waits.board.plans().in_words());
}

TEST(UpdateBoardAhead, APlanForWhatIsNotSoIsMadeAgain) {
  WithChangedRates program;
  CountingLock lock;
  program.board.plan_ahead(lock);
  UpdateTask larger = program.task(0);
  larger.params = 2 * kParams;
  program.board.place(larger, lock);
  EXPECT_EQ(lock.given_up, 2);
}

TEST(UpdateBoardAhead, NothingIsPlannedWhereThePlanHolds) {
  Program program("dos", surroundings(1));
  for (int step = 0; step < 4; ++step) program.step();
  CountingLock lock;
  ASSERT_TRUE(program.board.may_plan_ahead());
  program.board.plan_ahead(lock);
  EXPECT_EQ(lock.given_up, 0);
}

TEST(UpdateBoardAhead, OnlyWhenTheStepsUpdatesHaveRun) {
  Program program("dos", surroundings(1));
  EXPECT_FALSE(program.board.may_plan_ahead());
  program.step();
  EXPECT_FALSE(program.board.may_plan_ahead()) << "more may come in the first step";
  program.step();
  EXPECT_TRUE(program.board.may_plan_ahead());
  const Index first = program.arrive(0);
  EXPECT_FALSE(program.board.may_plan_ahead());
  program.board.executed(first, program.board.planned(first).device, units::Seconds(0.01));
  EXPECT_FALSE(program.board.may_plan_ahead()) << "the others come";
}

TEST(UpdateBoardAhead, AgainWhenForwardIsOver) {
  WithChangedRates program;
  const int weights = 0;
  program.board.forward_watch().writes(0, &weights);
  CountingLock lock;
  program.board.plan_ahead(lock);
  EXPECT_FALSE(program.board.may_plan_ahead());
  program.board.forward_watch().read(&weights);
  EXPECT_TRUE(program.board.may_plan_ahead());
  program.board.plan_ahead(lock);
  EXPECT_FALSE(program.board.may_plan_ahead());
}

// The step that the plan was for begins while it is made.
TEST(UpdateBoardAhead, APlanThatComesTooLateIsLeft) {
  struct LateLock : CountingLock {
    explicit LateLock(Program& of) : program(of) {}
    void unlock() { program.step(); }
    Program& program;
  };
  WithChangedRates program;
  LateLock late(program);
  program.board.plan_ahead(late);
  CountingLock lock;
  begin_step(program, lock);
  EXPECT_EQ(program.board.subgroups().step(), 5);
}

}  // namespace
}  // namespace dos::sched_starpu::update_board_ahead_test

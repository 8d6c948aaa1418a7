// SPDX-License-Identifier: Apache-2.0
// What the board knows of gradients and of memory.
#include <gtest/gtest.h>

#include "sched_starpu/update_program.hpp"

namespace dos::sched_starpu::update_board_gradients_test {
namespace {

TEST(UpdateBoard, KnowsTheGradientsOfTheCpusUpdates) {
  Program program("dos-stride", surroundings(1), {.stride = 2});
  EXPECT_FALSE(program.board.updated_on_cpu(program.gradient(0)).has_value()) << "not seen yet";
  program.step();
  program.step();
  for (Index i = 0; i < kSubgroups; ++i)
    EXPECT_EQ(program.board.updated_on_cpu(program.gradient(i)).has_value(),
              program.board.planned(i).device.is_cpu());
  EXPECT_FALSE(program.board.updated_on_cpu(&program).has_value());
}

TEST(UpdateBoard, CountsAFlushForTheStepWhoseUpdateIsToCome) {
  Program program("zero-offload", surroundings(1));
  const units::Bytes bytes(2e6);
  program.step();
  // All updates of the first step have arrived: these are of the second.
  program.board.flushed(0, bytes);
  program.board.flushed(1, bytes);
  EXPECT_EQ(program.board.ledger().step(1)->flushed.value(), 0);
  program.arrive(0);
  program.board.flushed(2, bytes);  // without clipping backward still runs when updates arrive
  program.board.flushed(0, bytes);  // of the third
  program.board.waited(units::Seconds(8));
  EXPECT_EQ(program.board.ledger().step(2)->flushed.value(), 6e6);
  EXPECT_EQ(program.board.ledger().step(2)->waited.value(), 1) << "of eight workers";
  program.arrive(0);
  EXPECT_EQ(program.board.ledger().step(3)->flushed.value(), 2e6);
  EXPECT_EQ(program.board.ledger().step(2)->flushed.value(), 6e6);
  EXPECT_EQ(program.board.report().all.flushed.value(), 8e6);
  EXPECT_FALSE(program.board.ledger().step(4).has_value());
}

TEST(UpdateBoard, PlansWithTheMemoryThatIsReadWhenTheSecondStepBegins) {
  // Room for 20 of 40 subgroups at 12 bytes, two of which are a window.
  const units::Bytes room(20 * 12e6);
  Index reads = 0;
  Surroundings around = surroundings(1, /*memory=*/1e9);
  around.read_memory = [&](Index) {
    ++reads;
    return sched::StateMemory{.update = room, .resident = room};
  };
  Program program("gpu-only", around);
  program.step();
  EXPECT_TRUE(program.board.learns_memory());
  EXPECT_EQ(reads, 0);
  program.arrive(0);
  EXPECT_FALSE(program.board.learns_memory());
  Index residents = 0;
  for (Index i = 0; i < kSubgroups; ++i) residents += program.board.planned(i).is_resident ? 1 : 0;
  EXPECT_GE(residents, 10);
  EXPECT_LT(residents, 20);
  program.step();
  EXPECT_EQ(reads, 1);
}

}  // namespace
}  // namespace dos::sched_starpu::update_board_gradients_test

// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>

#include "sched_starpu/update_board.hpp"
#include "sched_starpu/update_program.hpp"

namespace dos::sched_starpu::update_board_kept_test {
namespace {

TEST(UpdateBoard, WhatOneGpuAloneMayRunStaysThereFromTheFirstStepOn) {
  UpdateBoard board("dos", {.residents = false}, surroundings(1));
  Program program("dos", surroundings(1));
  for (int step = 0; step < 3; ++step) {
    SCOPED_TRACE(step);
    for (Index i = 0; i < kSubgroups; ++i) {
      UpdateTask task = program.task(i);
      if (i % 4 == 0) task.kept_on = 0;
      const Place place = board.place(task, NoLock{}).place;
      EXPECT_EQ(place.is_resident, i % 4 == 0) << i;
      EXPECT_FALSE(place.arrives) << i;
      EXPECT_TRUE(!place.is_resident || place.device.gpu == 0) << i;
      const double rate = place.device.is_cpu() ? kCpuRate : kGpuRate;
      board.executed(i, place.device, units::Seconds(kParams / rate));
    }
  }
  ASSERT_TRUE(board.plans().plan().has_value());
  EXPECT_EQ(std::ranges::count_if(board.plans().plan()->assignments, &sched::is_resident),
            kSubgroups / 4);
  // Nothing of them crosses the link.
  const StepReport last = board.report().steps.back();
  const double streamed = (last.executed_gpu.value() / kParams - kSubgroups / 4.0);
  EXPECT_EQ(last.needed[0].out.value(), 12 * streamed * kParams);
}

// No CPU ever shows its rate then, which is no obstacle.
TEST(UpdateBoard, HasNothingToPlanWhereGpusKeepAll) {
  UpdateBoard board("dos", {.residents = false}, surroundings(1));
  Program program("dos", surroundings(1));
  for (int step = 0; step < 3; ++step)
    for (Index i = 0; i < kSubgroups; ++i) {
      UpdateTask task = program.task(i);
      task.kept_on = 0;
      const Place place = board.place(task, NoLock{}).place;
      EXPECT_TRUE(place.is_resident);
      board.executed(i, place.device, units::Seconds(kParams / kGpuRate));
    }
  EXPECT_EQ(board.report().obstacle, "");
  EXPECT_EQ(board.report().steps.back().executed_gpu.value(), kSubgroups * kParams);
}

}  // namespace
}  // namespace dos::sched_starpu::update_board_kept_test

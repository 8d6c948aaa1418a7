// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/load.hpp"

#include <gmock/gmock.h>

namespace dos::sched_starpu::load_test {
namespace {

Load with(int workers, bool one_by_one = true) {
  Load load;
  for (int i = 0; i < workers; ++i) load.add_worker(one_by_one);
  return load;
}

TEST(Load, WithoutWorkersOrWorkNobodyWaits) {
  EXPECT_EQ(with(0).start_after(5, 0), 0);
  EXPECT_EQ(with(1).start_after(0, 0), 0);
  EXPECT_EQ(with(3).start_after(0, 100), 0);
}

TEST(Load, WhatWaitsIsDividedAmongTheWorkers) {
  EXPECT_EQ(with(4).start_after(10, 0), 2.5);
}

TEST(Load, TheFirstWorkerThatIsFreeCounts) {
  Load load = with(2);
  load.take(0, /*now=*/10, /*seconds=*/4);
  EXPECT_EQ(load.start_after(0, 10), 0);
  load.take(1, 10, 6);
  EXPECT_EQ(load.start_after(0, 10), 4);
  EXPECT_EQ(load.start_after(0, 13), 1);
  EXPECT_EQ(load.start_after(0, 14.5), 0);
}

// Busy for 1, 2 and 9: three seconds of work bring the first two to 3, twelve all to 8 would not
// reach the third.
TEST(Load, WorkFillsThoseUpThatAreFreeFirst) {
  Load load = with(3);
  load.take(0, 0, 1);
  load.take(1, 0, 2);
  load.take(2, 0, 9);
  EXPECT_EQ(load.start_after(3, 0), 3);
  EXPECT_EQ(load.start_after(13, 0), 8);
  EXPECT_EQ(load.start_after(18, 0), 10);
}

TEST(Load, AWorkerThatEndsSoonerThanExpectedIsFree) {
  Load load = with(1);
  for (int i = 0; i < 100; ++i) load.take(0, i * 0.1, 10);
  EXPECT_NEAR(load.start_after(0, 9.9), 10, 1e-9);
}

// It takes a task while the one before runs, and no more.
TEST(Load, AGpuIsOneTaskAhead) {
  Load load = with(1, /*one_by_one=*/false);
  load.take(0, 0, 10);
  load.take(0, 0, 3);
  EXPECT_EQ(load.start_after(0, 0), 13);
  load.take(0, 10, 2);
  EXPECT_EQ(load.start_after(0, 10), 5);
  load.take(0, 10, 1);
  EXPECT_EQ(load.start_after(0, 10), 3);
}

}  // namespace
}  // namespace dos::sched_starpu::load_test

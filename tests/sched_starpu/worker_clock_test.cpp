// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/worker_clock.hpp"

#include <gtest/gtest.h>

namespace dos::sched_starpu::worker_clock_test {
namespace {

constexpr double kSecond = 1e6;

void expect_times(const WorkerClock& clock, double running, double data, double window,
                  double nothing) {
  // Sums of a few differences of microseconds.
  constexpr double kRounding = 1e-9;
  EXPECT_NEAR(clock.times().running.value(), running, kRounding);
  EXPECT_NEAR(clock.times().data.value(), data, kRounding);
  EXPECT_NEAR(clock.times().window.value(), window, kRounding);
  EXPECT_NEAR(clock.times().nothing.value(), nothing, kRounding);
}

TEST(WorkerClock, StartsWithTheFirstTask) {
  WorkerClock clock;
  clock.refused(1 * kSecond, false);
  clock.took(5 * kSecond);
  expect_times(clock, 0, 0, 0, 0);
}

TEST(WorkerClock, DividesTheTimeOfOneTaskAfterTheOther) {
  WorkerClock clock;
  clock.took(10 * kSecond);
  clock.started(12 * kSecond);  // its data came for 2 s
  clock.ended(15 * kSecond);
  clock.refused(16 * kSecond, false);
  clock.refused(20 * kSecond, true);
  clock.took(21 * kSecond);
  clock.started(21 * kSecond);
  clock.ended(22 * kSecond);
  expect_times(clock, 4, 2, 4, 2);
}

TEST(WorkerClock, WhatRunsHidesWhatIsPrepared) {
  WorkerClock clock(/*overlaps=*/true);
  clock.took(0);
  clock.started(0);
  clock.took(1 * kSecond);
  clock.refused(2 * kSecond, true);
  clock.started(3 * kSecond);  // the first still runs
  clock.ended(4 * kSecond);
  clock.took(5 * kSecond);
  clock.ended(6 * kSecond);
  clock.started(9 * kSecond);  // the third's data came last
  clock.ended(10 * kSecond);
  expect_times(clock, 7, 3, 0, 0);
}

TEST(WorkerClock, ATaskWithoutAnEndRunsUntilTheNextEnds) {
  WorkerClock clock;
  clock.took(0);
  clock.started(0);
  clock.took(4 * kSecond);
  clock.started(4 * kSecond);
  clock.ended(5 * kSecond);
  clock.took(7 * kSecond);
  expect_times(clock, 5, 0, 0, 2);
}

TEST(WorkerClock, KnowsWhenTheLastTaskEnded) {
  WorkerClock clock(/*overlaps=*/true);
  EXPECT_LT(clock.last_end_us(), 0);
  clock.took(0);
  clock.started(0);
  clock.ended(3 * kSecond);
  clock.took(4 * kSecond);
  EXPECT_EQ(clock.last_end_us(), 3 * kSecond);
}

TEST(WorkerClock, TimesOfWorkersAdd) {
  WorkerTimes sum;
  WorkerClock clock;
  clock.took(0);
  clock.started(1 * kSecond);
  clock.ended(3 * kSecond);
  for (int worker = 0; worker < 3; ++worker) sum += clock.times();
  EXPECT_NEAR(sum.total().value(), 9, 1e-9);
}

}  // namespace
}  // namespace dos::sched_starpu::worker_clock_test

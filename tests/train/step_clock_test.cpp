// SPDX-License-Identifier: Apache-2.0
// Times of steps from records written by hand.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "train/metrics.hpp"

namespace dos::train::step_clock_test {
namespace {

using rt::Phase;

rt::TaskRecord record(Phase phase, double start_ms, double end_ms) {
  return {.codelet = nullptr,
          .label = "",
          .tag = {.phase = phase, .step = 1},
          .worker = 0,
          .start_us = start_ms * 1e3,
          .end_us = end_ms * 1e3};
}

StepMetrics measure(StepClock& clock, const std::vector<rt::TaskRecord>& records) {
  StepMetrics metrics;
  clock.measure(records, metrics);
  return metrics;
}

// All times are whole milliseconds below 2^53 microseconds: exact.
TEST(StepClock, TheFirstStepStartsWithItsFirstTask) {
  StepClock clock;
  const StepMetrics metrics = measure(clock, {record(Phase::kForward, 100, 110)});
  EXPECT_EQ(metrics.ms_step, 10);
  EXPECT_EQ(metrics.ms_forward, 10);
  EXPECT_EQ(metrics.ms_backward, 0);
  EXPECT_EQ(metrics.ms_update, 0);
}

TEST(StepClock, PhasesAreUnionsOfIntervalsAndMayOverlap) {
  StepClock clock;
  const StepMetrics metrics =
      measure(clock, {record(Phase::kForward, 0, 4), record(Phase::kForward, 2, 6),
                      record(Phase::kForward, 8, 9), record(Phase::kBackward, 5, 12),
                      record(Phase::kBackward, 6, 7), record(Phase::kUpdate, 10, 13)});
  EXPECT_EQ(metrics.ms_forward, 7);
  EXPECT_EQ(metrics.ms_backward, 7);
  EXPECT_EQ(metrics.ms_update, 3);
  EXPECT_EQ(metrics.ms_step, 13);
}

TEST(StepClock, TheUpdateCountsNorms) {
  StepClock clock;
  const StepMetrics metrics = measure(
      clock,
      {record(Phase::kReduce, 0, 3), record(Phase::kUpdate, 2, 5), record(Phase::kReduce, 7, 8)});
  EXPECT_EQ(metrics.ms_update, 6);
}

TEST(StepClock, AStepThatOverlapsTheOneBeforeCountsFromItsEnd) {
  StepClock clock;
  measure(clock, {record(Phase::kForward, 0, 10), record(Phase::kUpdate, 10, 20)});
  const StepMetrics overlapping =
      measure(clock, {record(Phase::kForward, 15, 22), record(Phase::kUpdate, 22, 27)});
  EXPECT_EQ(overlapping.ms_step, 7);
  EXPECT_EQ(overlapping.ms_forward, 7);
}

TEST(StepClock, AGapBetweenStepsIsNoStep) {
  StepClock clock;
  measure(clock, {record(Phase::kForward, 0, 10)});
  EXPECT_EQ(measure(clock, {record(Phase::kForward, 50, 53)}).ms_step, 3);
}

TEST(StepClock, StepsAddUpToTheirSpan) {
  StepClock clock;
  double sum = 0;
  for (int step = 0; step < 10; ++step)
    sum += measure(clock, {record(Phase::kForward, 8 * step, 8 * step + 12)}).ms_step;
  EXPECT_EQ(sum, 8 * 9 + 12);
}

TEST(StepClock, OrderOfRecordsDoesNotMatter) {
  StepClock a;
  StepClock b;
  const rt::TaskRecord first = record(Phase::kForward, 0, 3);
  const rt::TaskRecord second = record(Phase::kBackward, 2, 9);
  EXPECT_EQ(measure(a, {first, second}).ms_step, measure(b, {second, first}).ms_step);
}

TEST(StepClock, AStepHasTasks) {
  StepClock clock;
  EXPECT_THROW(measure(clock, {}), ContractViolation);
}

}  // namespace
}  // namespace dos::train::step_clock_test

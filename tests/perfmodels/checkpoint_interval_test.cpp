// SPDX-License-Identifier: Apache-2.0
#include "perfmodels/checkpoint_interval.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace dos::perfmodels::checkpoint_interval_test {
namespace {

TEST(ChooseInterval, IsWhatTheDeviceCanWrite) {
  // 1.2 s of writing fill 0.8 of three steps of half a second.
  const CheckpointInterval chosen = choose_interval({.step_s = 0.5, .write_s = 1.2}, 86400);
  EXPECT_EQ(chosen.steps, 3);
  EXPECT_EQ(chosen.limit, IntervalLimit::kDevice);
}

TEST(ChooseInterval, IsOneStepWhereNothingStandsAgainstIt) {
  const CheckpointInterval chosen = choose_interval({.step_s = 2.4, .write_s = 0.6}, 86400);
  EXPECT_EQ(chosen.steps, 1);
  EXPECT_EQ(chosen.limit, IntervalLimit::kNone);
}

TEST(ChooseInterval, IsYoungsWhereCheckpointsCost) {
  // sqrt(2 * 0.5 s * 10 h) = 189.7 s.
  const CheckpointInterval chosen =
      choose_interval({.step_s = 2, .write_s = 3, .waited_s = 0.5}, 36000);
  EXPECT_EQ(chosen.steps, 95);
  EXPECT_EQ(chosen.limit, IntervalLimit::kWaits);
}

// A checkpoint that no update waits for takes processor and memory from steps all the same.
TEST(ChooseInterval, CountsTheLargerOfWaitsAndSlowedSteps) {
  const CheckpointInterval slowed =
      choose_interval({.step_s = 2, .write_s = 3, .slowed_s = 0.5}, 36000);
  EXPECT_EQ(slowed.steps, 95);
  EXPECT_EQ(slowed.limit, IntervalLimit::kSlowed);
  const CheckpointInterval both =
      choose_interval({.step_s = 2, .write_s = 3, .waited_s = 0.5, .slowed_s = 0.4}, 36000);
  EXPECT_EQ(both.steps, 95);
  EXPECT_EQ(both.limit, IntervalLimit::kWaits);
}

// The lost time a second, c / N t + N t / 2 M, has its minimum there.
TEST(ChooseInterval, CostsLessThanItsNeighbours) {
  for (const double waited : {0.01, 0.3, 7.0})
    for (const double mtbf : {3600.0, 1e6}) {
      const auto lost = [&](double steps) { return waited / steps + steps / (2 * mtbf); };
      const auto steps = static_cast<double>(
          choose_interval({.step_s = 1, .write_s = 0, .waited_s = waited}, mtbf).steps);
      EXPECT_LE(lost(steps), lost(steps * 1.2 + 1));
      EXPECT_LE(lost(steps), lost(std::max(1.0, steps / 1.2 - 1)));
    }
}

TEST(ChooseInterval, StandsWhateverIsMeasured) {
  EXPECT_GE(choose_interval({.step_s = 1e-9, .write_s = 1e9, .waited_s = 1e9}, 1e12).steps, 1);
  EXPECT_EQ(choose_interval({.step_s = 1e9}, 1).steps, 1);
  EXPECT_THROW(choose_interval({.step_s = 0}, 1), ContractViolation);
}

}  // namespace
}  // namespace dos::perfmodels::checkpoint_interval_test

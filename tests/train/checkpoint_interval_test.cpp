// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_interval.hpp"

#include <gmock/gmock.h>

namespace dos::train::checkpoint_interval_test {
namespace {

using testing::HasSubstr;

TEST(AutoInterval, MeasuresOnceAndThenKeepsToWhatItSaw) {
  AutoInterval interval(/*start=*/10, 3600);
  EXPECT_FALSE(interval.is_due(11));
  EXPECT_FALSE(interval.is_due(12));
  EXPECT_TRUE(interval.is_due(13));
  for (Index step = 14; step < 40; ++step)
    EXPECT_FALSE(interval.is_due(step)) << "not measured yet";
  const CheckpointCosts costs{.step_s = 1, .write_s = 4};
  const auto text = interval.see(costs);
  ASSERT_TRUE(text.has_value());
  EXPECT_THAT(*text, HasSubstr("a checkpoint every 5 steps: it takes 4 s to write"));
  EXPECT_THAT(*text, HasSubstr("the device writes no faster"));
  EXPECT_TRUE(interval.is_due(40));
  EXPECT_EQ(interval.see(costs), std::nullopt) << "no news";
  EXPECT_FALSE(interval.is_due(44));
  EXPECT_TRUE(interval.is_due(45));
  EXPECT_THAT(interval.see({.step_s = 1, .write_s = 40}).value_or(""), HasSubstr("every 50 steps"));
}

TEST(AutoInterval, LearnsNothingFromOneThatWasGivenUp) {
  AutoInterval interval(/*start=*/0, 3600);
  EXPECT_TRUE(interval.is_due(3));
  interval.give_up();
  EXPECT_FALSE(interval.is_due(5));
  EXPECT_TRUE(interval.is_due(6));
  EXPECT_TRUE(interval.see({.step_s = 1, .write_s = 8}).has_value());
  EXPECT_TRUE(interval.is_due(16));
  interval.give_up();
  EXPECT_FALSE(interval.is_due(25));
  EXPECT_TRUE(interval.is_due(26));
}

}  // namespace
}  // namespace dos::train::checkpoint_interval_test

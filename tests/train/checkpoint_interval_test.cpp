// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_interval.hpp"

#include <gmock/gmock.h>

#include <algorithm>

namespace dos::train::checkpoint_interval_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// After `start`, with the first of the two checkpoints that it measures behind it.
AutoInterval after_first(Index start, const CheckpointCosts& costs) {
  AutoInterval interval(start, 3600);
  EXPECT_TRUE(interval.is_due(start + 3));
  EXPECT_EQ(interval.see(costs), std::nullopt) << "decides nothing: it had to make its files";
  return interval;
}

TEST(AutoInterval, MeasuresTwoAndThenKeepsToWhatItSaw) {
  AutoInterval interval(/*start=*/10, 3600);
  EXPECT_FALSE(interval.is_due(11));
  EXPECT_FALSE(interval.is_due(12));
  EXPECT_TRUE(interval.is_due(13));
  for (Index step = 14; step < 40; ++step)
    EXPECT_FALSE(interval.is_due(step)) << "not measured yet";
  EXPECT_EQ(interval.see({.step_s = 1, .write_s = 400, .waited_s = 50}), std::nullopt);
  EXPECT_TRUE(interval.is_due(40));
  const CheckpointCosts costs{.step_s = 1, .write_s = 4};
  const auto text = interval.see(costs);
  ASSERT_TRUE(text.has_value());
  EXPECT_THAT(*text, HasSubstr("a checkpoint every 5 steps: it takes 4 s to write"));
  EXPECT_THAT(*text, HasSubstr("the device writes no faster"));
  EXPECT_FALSE(interval.is_due(44));
  EXPECT_TRUE(interval.is_due(45));
  EXPECT_EQ(interval.see(costs), std::nullopt) << "no news";
  EXPECT_TRUE(interval.is_due(50));
  const CheckpointCosts slower{.step_s = 1, .write_s = 40};
  EXPECT_EQ(interval.see(slower), std::nullopt) << "one slow checkpoint";
  EXPECT_TRUE(interval.is_due(55));
  EXPECT_THAT(interval.see(slower).value_or(""), HasSubstr("every 50 steps"));
}

TEST(AutoInterval, SaysWhatDecided) {
  const auto text_of = [](const CheckpointCosts& costs) {
    AutoInterval interval = after_first(/*start=*/0, costs);
    return interval.see(costs).value_or("");
  };
  EXPECT_THAT(text_of({.step_s = 1, .write_s = 0.4}),
              AllOf(HasSubstr("a checkpoint every step: "), HasSubstr("asks for fewer")));
  EXPECT_THAT(text_of({.step_s = 1, .write_s = 0.4, .slowed_s = 0.02}),
              AllOf(HasSubstr("a checkpoint every 12 steps: "),
                    HasSubstr("makes steps longer by 0.02 s in all"),
                    HasSubstr("cost more, in steps that are longer, than they save")));
  EXPECT_THAT(text_of({.step_s = 1, .write_s = 0.4, .waited_s = 0.02, .slowed_s = 0.01}),
              HasSubstr("cost more, in waits, than they save"));
  EXPECT_THAT(text_of({.step_s = 1, .write_s = 40, .slowed_s = 0.02}),
              HasSubstr("the device writes no faster"));
}

// Where one is saved every step, none is seen without.
TEST(AutoInterval, RestsNowAndThen) {
  const CheckpointCosts costs{.step_s = 1, .write_s = 0.1};
  AutoInterval interval = after_first(/*start=*/0, costs);
  Index longest = 0;
  for (Index step = 6, last = 3; step < 100; ++step) {
    if (!interval.is_due(step)) continue;
    interval.see(costs);
    if (last > 3) longest = std::max(longest, step - last);
    last = step;
  }
  EXPECT_EQ(longest, 3);
}

TEST(AutoInterval, LearnsNothingFromOneThatWasGivenUp) {
  AutoInterval interval(/*start=*/0, 3600);
  EXPECT_TRUE(interval.is_due(3));
  EXPECT_FALSE(interval.see({.step_s = 1, .write_s = 8}).has_value());
  EXPECT_TRUE(interval.is_due(6));
  interval.give_up();
  EXPECT_FALSE(interval.is_due(8));
  EXPECT_TRUE(interval.is_due(9));
  EXPECT_TRUE(interval.see({.step_s = 1, .write_s = 8}).has_value());
  EXPECT_TRUE(interval.is_due(19));
  interval.give_up();
  EXPECT_FALSE(interval.is_due(28));
  EXPECT_TRUE(interval.is_due(29));
}

TEST(SlowedSteps, AreThoseBesideACheckpoint) {
  SlowedSteps slowed;
  slowed.see(20, false);  // the first step of all
  slowed.see(1, false);
  EXPECT_EQ(slowed.seconds(), 0);
  slowed.see(1.02, true);
  slowed.see(1.03, true);
  EXPECT_EQ(slowed.seconds(), 0) << "has not ended";
  slowed.checkpoint_ended();
  EXPECT_NEAR(slowed.seconds(), 0.05, 1e-12);
  slowed.see(1, false);
  slowed.checkpoint_ended();
  EXPECT_NEAR(slowed.seconds(), 0.05, 1e-12) << "beside no step";
}

TEST(SlowedSteps, AreUnknownWhereNoneIsWithout) {
  SlowedSteps slowed;
  for (int i = 0; i < 5; ++i) {
    slowed.see(2, true);
    slowed.checkpoint_ended();
  }
  EXPECT_EQ(slowed.seconds(), 0);
}

TEST(SlowedSteps, ForgetWhatWasUnlucky) {
  SlowedSteps slowed;
  slowed.see(1, false);
  const auto checkpoint = [&](double step_s) {
    slowed.see(1, false);
    slowed.see(step_s, true);
    slowed.checkpoint_ended();
  };
  checkpoint(9);
  EXPECT_NEAR(slowed.seconds(), 8, 1e-12);
  for (int i = 0; i < 60; ++i) checkpoint(1.1);
  EXPECT_NEAR(slowed.seconds(), 0.1, 0.01);
  for (int i = 0; i < 60; ++i) checkpoint(0.9);
  EXPECT_EQ(slowed.seconds(), 0) << "what varies only";
}

}  // namespace
}  // namespace dos::train::checkpoint_interval_test

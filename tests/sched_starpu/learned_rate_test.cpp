// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/learned_rate.hpp"

#include <gtest/gtest.h>

namespace dos::sched_starpu {
namespace {

units::ParamsPerSecond rate(double value) {
  return units::ParamsPerSecond(value);
}

void see(LearnedRate& learned, double value, int times) {
  for (int i = 0; i < times; ++i) learned.see(rate(value));
}

TEST(LearnedRate, KnowsNothingAtFirst) {
  EXPECT_FALSE(LearnedRate().value().has_value());
  EXPECT_FALSE(LearnedRate().is_measured());
}

TEST(LearnedRate, OneUpdateIsEnough) {
  LearnedRate learned;
  learned.see(rate(7));
  EXPECT_EQ(learned.value()->value(), 7);
  EXPECT_TRUE(learned.is_measured());
}

// One end that is seen late, and the next that is seen at once: whatever their number, as long as
// they are fewer than half.
TEST(LearnedRate, OddMeasurementsDoNotMoveIt) {
  LearnedRate learned;
  see(learned, 10, 8);
  for (const double odd : {0.1, 500.0, 1.0, 0.2, 80.0, 30.0, 0.3}) {
    learned.see(rate(odd));
    EXPECT_EQ(learned.value()->value(), 10) << odd;
  }
}

TEST(LearnedRate, FollowsAChangeWithinEightUpdates) {
  LearnedRate learned;
  see(learned, 10, 100);
  see(learned, 2, 7);
  EXPECT_EQ(learned.value()->value(), 10);
  learned.see(rate(2));
  EXPECT_EQ(learned.value()->value(), 2);
}

TEST(LearnedRate, ASuggestionHoldsUntilTheSecondUpdate) {
  LearnedRate learned;
  learned.suggest(rate(5));
  EXPECT_TRUE(learned.is_suggested());
  learned.see(rate(1));
  EXPECT_EQ(learned.value()->value(), 5);
  EXPECT_FALSE(learned.is_measured());
  learned.see(rate(4));
  EXPECT_EQ(learned.value()->value(), 4);
  learned.suggest(rate(9));
  EXPECT_EQ(learned.value()->value(), 4);
}

TEST(LearnedRate, TheBestGlimpseHoldsUntilAnUpdateIsMeasured) {
  LearnedRate learned;
  for (const double each : {1.0, 3.0, 2.0}) learned.glimpse(rate(each));
  EXPECT_EQ(learned.value()->value(), 3);
  EXPECT_FALSE(learned.is_measured());
  learned.see(rate(2));
  learned.glimpse(rate(50));
  EXPECT_EQ(learned.value()->value(), 2);
}

TEST(LearnedRate, AGlimpseDoesNotReplaceASuggestion) {
  LearnedRate learned;
  learned.suggest(rate(5));
  learned.glimpse(rate(50));
  EXPECT_EQ(learned.value()->value(), 5);
}

}  // namespace
}  // namespace dos::sched_starpu

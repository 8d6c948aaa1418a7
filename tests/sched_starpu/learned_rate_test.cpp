// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/learned_rate.hpp"

#include <gtest/gtest.h>

namespace dos::sched_starpu::learned_rate_test {
namespace {

units::ParamsPerSecond rate(double value) {
  return units::ParamsPerSecond(value);
}

/// Updates of one size, at a rate of `value`.
void see(LearnedRate& learned, double value, int times = 1) {
  constexpr double kSize = 1000;
  for (int i = 0; i < times; ++i) learned.see(units::Params(kSize), units::Seconds(kSize / value));
}

TEST(LearnedRate, KnowsNothingAtFirst) {
  EXPECT_FALSE(LearnedRate().value().has_value());
  EXPECT_FALSE(LearnedRate().is_measured());
}

TEST(LearnedRate, OneUpdateIsEnough) {
  LearnedRate learned;
  see(learned, 7);
  EXPECT_DOUBLE_EQ(learned.value()->value(), 7);
  EXPECT_TRUE(learned.is_measured());
}

// One end that is seen late, and the next that is seen at once: whatever their number, as long as
// they are fewer than half.
TEST(LearnedRate, OddMeasurementsDoNotMoveIt) {
  LearnedRate learned;
  see(learned, 10, 8);
  for (const double odd : {0.1, 500.0, 1.0, 0.2, 80.0, 30.0, 0.3}) {
    see(learned, odd);
    EXPECT_DOUBLE_EQ(learned.value()->value(), 10) << odd;
  }
}

TEST(LearnedRate, FollowsAChangeWithinEightUpdates) {
  LearnedRate learned;
  see(learned, 10, 100);
  see(learned, 2, 7);
  EXPECT_DOUBLE_EQ(learned.value()->value(), 10);
  see(learned, 2);
  EXPECT_DOUBLE_EQ(learned.value()->value(), 2);
}

// Kernels so short that the thread sees every second end late, together with the next one.
TEST(LearnedRate, EndsThatAreSeenInPairsShowTheirMean) {
  LearnedRate learned({}, Tuning::ends_together);
  for (int i = 0; i < 30; ++i) {
    see(learned, 10.0 / 19);
    see(learned, 10);
  }
  EXPECT_NEAR(learned.value()->value(), 1, 1e-12);
}

TEST(LearnedRate, TheFirstUpdateOfAKernelIsNoneOfThoseTogether) {
  LearnedRate learned({}, Tuning::ends_together);
  see(learned, 0.01);
  see(learned, 10);
  EXPECT_DOUBLE_EQ(learned.value()->value(), 10);
  for (int i = 0; i < 20; ++i) {
    see(learned, 10);
    EXPECT_NEAR(learned.value()->value(), 10, 1e-12);
  }
}

TEST(LearnedRate, ASuggestionHoldsUntilTheSecondUpdate) {
  LearnedRate learned;
  learned.suggest(rate(5));
  EXPECT_TRUE(learned.is_suggested());
  see(learned, 1);
  EXPECT_DOUBLE_EQ(learned.value()->value(), 5);
  EXPECT_FALSE(learned.is_measured());
  see(learned, 4);
  EXPECT_DOUBLE_EQ(learned.value()->value(), 4);
  learned.suggest(rate(9));
  EXPECT_DOUBLE_EQ(learned.value()->value(), 4);
}

TEST(LearnedRate, TheBestGlimpseHoldsUntilAnUpdateIsMeasured) {
  LearnedRate learned;
  for (const double each : {1.0, 3.0, 2.0}) learned.glimpse(rate(each));
  EXPECT_DOUBLE_EQ(learned.value()->value(), 3);
  EXPECT_FALSE(learned.is_measured());
  see(learned, 2);
  learned.glimpse(rate(50));
  EXPECT_DOUBLE_EQ(learned.value()->value(), 2);
}

TEST(LearnedRate, AGlimpseDoesNotReplaceASuggestion) {
  LearnedRate learned;
  learned.suggest(rate(5));
  learned.glimpse(rate(50));
  EXPECT_DOUBLE_EQ(learned.value()->value(), 5);
}

// What a tenth of the size takes beyond its part of the time is what every update costs.
TEST(LearnedRate, SmallUpdatesShowTheOverhead) {
  LearnedRate learned;
  EXPECT_EQ(learned.overhead().value(), 0);
  const auto update = [&](double size) {
    learned.see(units::Params(size), units::Seconds(0.01 + size / 1e6));
  };
  update(1e4);
  for (int i = 0; i < 20; ++i) {
    update(1e6);
    update(1e4);
  }
  EXPECT_NEAR(learned.value()->value(), 1e6 / 1.01, 1e-3);
  // The large ones carry their own 0.01 s in their rate.
  EXPECT_NEAR(learned.overhead().value(), 0.02 - 1e4 * 1.01 / 1e6, 1e-9);
}

TEST(LearnedRate, EqualUpdatesShowNoOverhead) {
  LearnedRate learned;
  see(learned, 7, 20);
  EXPECT_EQ(learned.overhead().value(), 0);
}

}  // namespace
}  // namespace dos::sched_starpu::learned_rate_test

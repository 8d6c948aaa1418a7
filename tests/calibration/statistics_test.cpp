// SPDX-License-Identifier: Apache-2.0
#include "calibration/statistics.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/error.hpp"

namespace dos::calibration::statistics_test {
namespace {

TEST(Summarise, OneReadingHasNoSpread) {
  const Summary one = summarise({3});
  EXPECT_DOUBLE_EQ(one.median, 3);
  EXPECT_DOUBLE_EQ(one.spread, 0);
  EXPECT_EQ(one.rounds, 1);
}

TEST(Summarise, QuartilesAreInterpolated) {
  // Places 0.25, 0.5, 0.75 of one interval: 1.25, 1.5, 1.75.
  const Summary two = summarise({2, 1});
  EXPECT_DOUBLE_EQ(two.median, 1.5);
  EXPECT_DOUBLE_EQ(two.spread, 0.5 / 1.5);
  // Places 1, 2, 3 of five.
  const Summary five = summarise({50, 10, 40, 20, 30});
  EXPECT_DOUBLE_EQ(five.median, 30);
  EXPECT_DOUBLE_EQ(five.spread, 20.0 / 30);
  // Places 0.75, 1.5, 2.25 of four: 17.5, 25, 32.5.
  EXPECT_DOUBLE_EQ(summarise({10, 20, 30, 40}).spread, 15.0 / 25);
}

TEST(Summarise, OneOutlierOfNineCountsForNothing) {
  EXPECT_DOUBLE_EQ(summarise({5, 5, 5, 5, 5, 5, 5, 5, 500}).spread, 0);
}

TEST(Summarise, WhatNoClockCanReadIsAFault) {
  EXPECT_THROW(summarise({}), ContractViolation);
  EXPECT_THROW(summarise({1, 0}), ContractViolation);
  EXPECT_THROW(summarise({1, -1}), ContractViolation);
  EXPECT_THROW(summarise({std::numeric_limits<double>::infinity()}), ContractViolation);
}

/// Reads a list of values, one after the other, and counts.
struct Readings {
  std::vector<double> values;
  std::size_t taken = 0;
  double operator()() { return values.at(taken++); }
};

constexpr Effort kEffort{.rounds = 3, .attempts = 3, .most_spread = 0.1, .least_seconds = 0};

TEST(Repeat, StopsAtTheFirstCalmAttempt) {
  Readings readings{.values = {10, 20, 30, 10, 10.5, 10.5, 1, 1, 1}};
  const Summary summary = repeat(kEffort, std::ref(readings));
  EXPECT_EQ(readings.taken, 6U);
  EXPECT_DOUBLE_EQ(summary.median, 10.5);
  EXPECT_EQ(summary.rounds, 3);
}

TEST(Repeat, ReturnsTheCalmestOfNoisyAttempts) {
  Readings readings{.values = {10, 20, 30, 10, 12, 14, 10, 30, 50}};
  const Summary summary = repeat(kEffort, std::ref(readings));
  EXPECT_EQ(readings.taken, 9U);
  EXPECT_DOUBLE_EQ(summary.median, 12);
  EXPECT_DOUBLE_EQ(summary.spread, 2.0 / 12);
}

TEST(Repeat, TheLimitItselfIsAllowed) {
  // Quartiles 9.5 and 10.5: a spread of exactly a tenth.
  Readings readings{.values = {9, 10, 11}};
  EXPECT_DOUBLE_EQ(repeat(kEffort, std::ref(readings)).spread, 0.1);
  EXPECT_EQ(readings.taken, 3U);
}

}  // namespace
}  // namespace dos::calibration::statistics_test

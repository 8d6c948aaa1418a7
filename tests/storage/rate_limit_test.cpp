// SPDX-License-Identifier: Apache-2.0
#include "storage/rate_limit.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/error.hpp"

namespace dos::storage::rate_limit_test {
namespace {

using Time = RateLimit::Clock::time_point;
using Seconds = std::chrono::duration<double>;

double seconds(Time time) {
  return Seconds(time.time_since_epoch()).count();
}

Time at(double seconds) {
  return Time(std::chrono::ceil<RateLimit::Clock::duration>(Seconds(seconds)));
}

TEST(RateLimit, WithoutALimitNothingWaits) {
  RateLimit pace(0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pace.begin(Index{1} << 40, at(5)), at(5));
}

TEST(RateLimit, TheNextWaitsForTheBytesBefore) {
  RateLimit pace(100);
  EXPECT_EQ(pace.begin(50, at(1)), at(1));
  EXPECT_EQ(pace.begin(200, at(1)), at(1.5));
  EXPECT_EQ(pace.begin(0, at(2)), at(3.5));
  EXPECT_EQ(pace.begin(1, at(3)), at(3.5));
}

TEST(RateLimit, TimeThatWasNotUsedIsNotSavedUp) {
  RateLimit pace(100);
  EXPECT_EQ(pace.begin(100, at(1)), at(1));
  EXPECT_EQ(pace.begin(100, at(50)), at(50));
  EXPECT_EQ(pace.begin(100, at(50)), at(51));
}

// In every span of time: the bytes that began in it but for the last transfer's took their time.
TEST(RateLimit, NoSpanOfTimeHasMoreThanTheRate) {
  constexpr double kRate = 1000;
  std::mt19937_64 random(1);
  RateLimit pace(kRate);
  std::vector<std::pair<Time, Index>> begun;
  double now = 0;
  for (int i = 0; i < 200; ++i) {
    const auto bytes = static_cast<Index>(random() % 500);
    now += static_cast<double>(random() % 300) / 1000;
    begun.emplace_back(pace.begin(bytes, at(now)), bytes);
    now = std::max(now, seconds(begun.back().first));
  }
  for (std::size_t first = 0; first < begun.size(); ++first) {
    Index bytes = 0;
    for (std::size_t last = first; last < begun.size(); ++last) {
      const Seconds span = begun[last].first - begun[first].first;
      // The clock counts nanoseconds: an error of one a transfer would be kRate * 200e-9 bytes.
      EXPECT_LE(static_cast<double>(bytes), kRate * span.count() + 1e-3);
      bytes += begun[last].second;
    }
  }
}

TEST(RateLimit, ARateIsNotNegative) {
  EXPECT_THROW(RateLimit(-1), ContractViolation);
}

}  // namespace
}  // namespace dos::storage::rate_limit_test

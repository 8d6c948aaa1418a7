// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/pace.hpp"

#include <gtest/gtest.h>

namespace dos::sched_starpu::pace_test {
namespace {

constexpr Index kParams = 1'000'000;
constexpr double kExpected = 0.010;  ///< seconds of an update

Pace one_worker() {
  Pace pace;
  pace.add_worker();
  return pace;
}

TEST(Pace, IsWhatIsExpectedOrWorse) {
  Pace pace = one_worker();
  EXPECT_EQ(pace.seconds(kExpected, kParams, 0), kExpected);
  pace.begin(0, 0);
  EXPECT_EQ(pace.seconds(kExpected, kParams, 0.005), kExpected);
  EXPECT_EQ(pace.seconds(kExpected, kParams, 0.025), 0.025) << "has run for so long";
  pace.end(0, 0.030, kParams);
  EXPECT_EQ(pace.seconds(kExpected, kParams, 7), 0.030);
  EXPECT_EQ(pace.seconds(kExpected, 2 * kParams, 7), 0.060);
  pace.begin(0, 8);
  pace.end(0, 8.001, kParams);
  EXPECT_EQ(pace.seconds(kExpected, kParams, 8.001), kExpected);
}

// A norm's weights beside matrices: 50 us for 8192 parameters are the task's own.
TEST(Pace, OfSmallUpdatesSaysLittleOfLargeOnes) {
  Pace pace = one_worker();
  pace.begin(0, 0);
  pace.end(0, 50e-6, 8192);
  EXPECT_EQ(pace.seconds(kExpected, kParams, 1), kExpected);
}

TEST(Pace, LeavesOutWhatIsNoUpdate) {
  Pace pace = one_worker();
  pace.begin(0, 0);
  pace.begin_other(0, 0.005);
  EXPECT_EQ(pace.seconds(kExpected, kParams, 0.905), kExpected);
  pace.begin_other(0, 0.904);  // a GPU begins with one before the other ends
  pace.end_other(0, 0.905);
  pace.end_other(0, 1.005);
  EXPECT_EQ(pace.seconds(kExpected, kParams, 1.008), kExpected);
  EXPECT_NEAR(pace.seconds(kExpected, kParams, 1.020), 0.020, 1e-12);
  EXPECT_NEAR(pace.time_left(1, kExpected, 1.007), 0.013, 1e-12) << "3 ms of the first one left";
  pace.end(0, 1.025, kParams);
  EXPECT_NEAR(pace.seconds(kExpected, kParams, 2), 0.025, 1e-12);
}

TEST(Pace, CountsAnUpdateFromTheEndOfOtherWork) {
  Pace pace = one_worker();
  pace.begin_other(0, 0);
  pace.begin(0, 1);
  EXPECT_EQ(pace.seconds(kExpected, kParams, 5), kExpected);
  pace.end_other(0, 5);
  EXPECT_NEAR(pace.seconds(kExpected, kParams, 5.020), 0.020, 1e-12);
}

}  // namespace
}  // namespace dos::sched_starpu::pace_test

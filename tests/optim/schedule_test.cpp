// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace dos::optim::schedule_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

LearningRate make(const std::string& schedule, Index warmup, Index steps, double ratio = 0.1) {
  return LearningRate(
      {.schedule = schedule, .peak = 0.5, .final_ratio = ratio, .warmup = warmup, .steps = steps});
}

TEST(LearningRate, WarmsUpLinearlyFromAPartOfThePeak) {
  for (const std::string& schedule : LearningRate::known_schedules()) {
    SCOPED_TRACE(schedule);
    const LearningRate rate = make(schedule, 4, 100);
    EXPECT_DOUBLE_EQ(rate.at(1), 0.125);
    EXPECT_DOUBLE_EQ(rate.at(2), 0.25);
    EXPECT_DOUBLE_EQ(rate.at(4), 0.5);
    // The first step after warm-up still has the peak.
    EXPECT_DOUBLE_EQ(rate.at(5), 0.5);
  }
}

TEST(LearningRate, WithoutWarmupStartsAtThePeak) {
  for (const std::string& schedule : LearningRate::known_schedules())
    EXPECT_DOUBLE_EQ(make(schedule, 0, 10).at(1), 0.5) << schedule;
}

TEST(LearningRate, WarmupOfOneStepStartsAtThePeak) {
  EXPECT_DOUBLE_EQ(make("cosine", 1, 10).at(1), 0.5);
}

TEST(LearningRate, WarmupLongerThanTheRunNeverReachesThePeak) {
  for (const std::string& schedule : LearningRate::known_schedules()) {
    const LearningRate rate = make(schedule, 20, 10);
    for (Index step = 1; step <= 10; ++step)
      EXPECT_DOUBLE_EQ(rate.at(step), 0.5 * static_cast<double>(step) / 20) << schedule;
  }
}

TEST(LearningRate, WarmupAsLongAsTheRunEndsAtThePeak) {
  for (const std::string& schedule : LearningRate::known_schedules())
    EXPECT_DOUBLE_EQ(make(schedule, 10, 10).at(10), 0.5) << schedule;
}

TEST(LearningRate, ConstantStaysWhateverTheFinalRatio) {
  const LearningRate rate = make("constant", 2, 10, 0.0);
  for (const Index step : {2, 3, 9, 10, 1000}) EXPECT_DOUBLE_EQ(rate.at(step), 0.5);
}

TEST(LearningRate, LinearFallsByEqualParts) {
  const LearningRate rate = make("linear", 2, 12, 0.2);
  for (Index step = 3; step <= 13; ++step)
    EXPECT_DOUBLE_EQ(rate.at(step), 0.5 - 0.4 * static_cast<double>(step - 3) / 10) << step;
}

TEST(LearningRate, CosineFallsByHalfAWave) {
  const LearningRate rate = make("cosine", 2, 12, 0.2);
  EXPECT_DOUBLE_EQ(rate.at(3), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(8), (0.5 + 0.1) / 2);
  // One of the ten parts is left at the last step.
  EXPECT_DOUBLE_EQ(rate.at(12), 0.1 + 0.4 * 0.5 * (1 + std::cos(0.9 * std::acos(-1.0))));
  for (Index step = 4; step <= 12; ++step) EXPECT_LT(rate.at(step), rate.at(step - 1)) << step;
}

TEST(LearningRate, StaysAtTheFloorBehindTheEnd) {
  for (const char* schedule : {"linear", "cosine"}) {
    const LearningRate rate = make(schedule, 2, 12, 0.2);
    EXPECT_DOUBLE_EQ(rate.at(13), 0.1) << schedule;
    EXPECT_DOUBLE_EQ(rate.at(1000), 0.1) << schedule;
    EXPECT_NEAR(make(schedule, 0, 5, 0.0).at(6), 0.0, 1e-17) << schedule;
    EXPECT_DOUBLE_EQ(make(schedule, 0, 5, 1.0).at(5), 0.5) << schedule;
  }
}

TEST(LearningRate, ARunOfOneStepTrainsAtThePeak) {
  for (const std::string& schedule : LearningRate::known_schedules())
    for (const Index warmup : {0, 1}) EXPECT_DOUBLE_EQ(make(schedule, warmup, 1).at(1), 0.5);
}

TEST(LearningRate, StepsCountFromOne) {
  const LearningRate rate = make("cosine", 0, 5);
  EXPECT_THROW(static_cast<void>(rate.at(0)), ContractViolation);
}

TEST(LearningRate, UnknownScheduleNamesTheNearestAndAllKnownOnes) {
  std::vector<::testing::Matcher<std::string>> parts{HasSubstr("optim.schedule 'cosin'"),
                                                     HasSubstr("did you mean 'cosine'?")};
  for (const std::string& name : LearningRate::known_schedules()) parts.push_back(HasSubstr(name));
  EXPECT_THAT([] { make("cosin", 0, 1); }, ThrowsMessage<Error>(::testing::AllOfArray(parts)));
}

struct BadOptions {
  LearningRate::Options options;
  const char* message;
};

TEST(LearningRate, ValuesOutOfRangeAreNamed) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const BadOptions cases[] = {
      {{"cosine", 0.0, 0.1, 0, 1}, "optim.lr must be positive, got 0"},
      {{"cosine", -1.0, 0.1, 0, 1}, "optim.lr must be positive, got -1"},
      {{"cosine", kInfinity, 0.1, 0, 1}, "optim.lr"},
      {{"cosine", kNan, 0.1, 0, 1}, "optim.lr"},
      {{"cosine", 1.0, -0.1, 0, 1}, "optim.final_lr_ratio must lie in [0, 1], got -0.1"},
      {{"cosine", 1.0, 1.1, 0, 1}, "optim.final_lr_ratio"},
      {{"cosine", 1.0, kNan, 0, 1}, "optim.final_lr_ratio"},
      {{"cosine", 1.0, 0.1, -1, 1}, "optim.warmup must not be negative, got -1"},
  };
  for (const BadOptions& c : cases)
    EXPECT_THAT([&] { const LearningRate rate(c.options); },
                ThrowsMessage<Error>(HasSubstr(c.message)));
}

}  // namespace
}  // namespace dos::optim::schedule_test

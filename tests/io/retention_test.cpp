// SPDX-License-Identifier: Apache-2.0
#include "io/retention.hpp"

#include <gmock/gmock.h>

#include <chrono>

#include "base/error.hpp"

namespace dos::io::retention_test {
namespace {

using std::chrono::minutes;
using testing::ElementsAre;
using testing::IsEmpty;

/// One checkpoint every so many minutes, of steps 0, 1, ...
std::vector<CheckpointAge> every(minutes apart, Index count) {
  std::vector<CheckpointAge> ages;
  for (Index i = 0; i < count; ++i)
    ages.push_back({.step = i, .written = std::filesystem::file_time_type(apart * i)});
  return ages;
}

/// What stays of `ages` when the rule is applied as each of them comes.
std::vector<Index> stays(const std::vector<CheckpointAge>& ages, const Retention& retention) {
  std::vector<CheckpointAge> there;
  for (const CheckpointAge& age : ages) {
    there.push_back(age);
    for (const Index step : surplus(there, retention))
      std::erase_if(there, [&](const CheckpointAge& each) { return each.step == step; });
  }
  std::vector<Index> steps;
  for (const CheckpointAge& each : there) steps.push_back(each.step);
  return steps;
}

TEST(Retention, OfNoneAndOneNothingGoes) {
  EXPECT_THAT(surplus({}, {}), IsEmpty());
  EXPECT_THAT(surplus(every(minutes(1), 1), {}), IsEmpty());
  EXPECT_THAT(surplus(every(minutes(1), 3), {3}), IsEmpty());
}

TEST(Retention, ByCountTheNewestStay) {
  EXPECT_THAT(surplus(every(minutes(1), 4), {1}), ElementsAre(0, 1, 2));
  EXPECT_THAT(surplus(every(minutes(1), 4), {3}), ElementsAre(0));
}

TEST(Retention, WhatIsNeededStaysAndCountsAmongTheNewest) {
  std::vector<CheckpointAge> ages = every(minutes(1), 5);
  ages[1].is_needed = ages[4].is_needed = true;
  EXPECT_THAT(surplus(ages, {2}), ElementsAre(0, 2));
}

TEST(Retention, ByAgeOneOfEverySoManyHoursStays) {
  // Every 20 minutes, 0 to 220: one an hour, and the newest two.
  EXPECT_THAT(stays(every(minutes(20), 12), {2, 1}), ElementsAre(0, 3, 6, 9, 10, 11));
  EXPECT_THAT(stays(every(minutes(20), 12), {1, 1.5}), ElementsAre(0, 5, 10, 11));
  // Rarer than the rule: all of them.
  EXPECT_THAT(stays(every(minutes(90), 4), {1, 1}), ElementsAre(0, 1, 2, 3));
}

TEST(Retention, IsTheSameAtOnceAndOneByOne) {
  for (const double hours : {0.0, 0.5, 1.0, 2.4}) {
    const std::vector<CheckpointAge> ages = every(minutes(13), 40);
    std::vector<Index> all;
    for (const CheckpointAge& age : ages) all.push_back(age.step);
    for (const Index step : surplus(ages, {3, hours})) std::erase(all, step);
    EXPECT_EQ(stays(ages, {3, hours}), all) << hours;
  }
}

TEST(Retention, AClockThatWasSetBackTakesNothingMore) {
  std::vector<CheckpointAge> ages = every(minutes(60), 6);
  // Steps 3 to 5 were written by a clock that is a day behind.
  for (std::size_t i = 3; i < ages.size(); ++i) ages[i].written -= std::chrono::hours(24);
  EXPECT_THAT(stays(ages, {1, 1}), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Retention, KeepsAtLeastOne) {
  EXPECT_THROW(surplus(every(minutes(1), 2), {0}), ContractViolation);
  EXPECT_THROW(surplus(every(minutes(1), 2), {1, -1}), ContractViolation);
}

}  // namespace
}  // namespace dos::io::retention_test

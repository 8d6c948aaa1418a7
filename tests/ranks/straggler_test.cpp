// SPDX-License-Identifier: Apache-2.0
#include "ranks/straggler.hpp"

#include <gmock/gmock.h>

namespace dos::ranks::straggler_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::optional<std::string> see(StragglerWatch& watch, const std::vector<double>& times,
                               Index steps) {
  std::optional<std::string> line;
  for (Index i = 0; i < steps; ++i) line = watch.see(times);
  return line;
}

TEST(Straggler, OneRankHasNoOthers) {
  StragglerWatch watch;
  EXPECT_FALSE(see(watch, {100}, 10));
}

TEST(Straggler, EqualRanksAreFine) {
  StragglerWatch watch;
  EXPECT_FALSE(see(watch, {100, 101, 149, 99}, 10));
  EXPECT_FALSE(see(watch, {0, 0, 0}, 10));
  EXPECT_FALSE(see(watch, {1, 1, 40}, 10)) << "too short to tell";
}

TEST(Straggler, IsNamedWithTimesOfStepsInARow) {
  StragglerWatch watch;
  EXPECT_FALSE(see(watch, {100, 100, 200}, StragglerWatch::kSteps - 1));
  const auto line = watch.see(std::vector<double>{100, 102, 200});
  ASSERT_TRUE(line);
  EXPECT_THAT(*line, AllOf(HasSubstr("rank 2"), HasSubstr("200 ms"), HasSubstr("102 ms")));
}

TEST(Straggler, OfTwoRanksTheSlowerOne) {
  StragglerWatch watch;
  const auto line = see(watch, {151, 100}, StragglerWatch::kSteps);
  ASSERT_TRUE(line);
  EXPECT_THAT(*line, HasSubstr("rank 0"));
}

TEST(Straggler, AStepWithoutDelayStartsAnew) {
  StragglerWatch watch;
  see(watch, {100, 200}, StragglerWatch::kSteps - 1);
  EXPECT_FALSE(see(watch, {100, 100}, 1));
  EXPECT_FALSE(see(watch, {100, 200}, StragglerWatch::kSteps - 1));
  EXPECT_TRUE(see(watch, {100, 200}, 1));
}

}  // namespace
}  // namespace dos::ranks::straggler_test

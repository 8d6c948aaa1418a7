// SPDX-License-Identifier: Apache-2.0
#include "train/plan_model.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace dos::train {
namespace {

TEST(PlannedModel, GptShapesHaveTheNumbersOfTheirPapers) {
  // 175 B and 1008 B parameters.
  EXPECT_NEAR(static_cast<double>(find_planned_model("gpt3-175b").params()) / 1e9, 175, 0.5);
  EXPECT_NEAR(static_cast<double>(find_planned_model("gpt-1t").params()) / 1e9, 1008, 0.5);
}

TEST(PlannedModel, UnknownNamesAreRefused) {
  EXPECT_THROW(find_planned_model("gpt3-175"), Error);
}

}  // namespace
}  // namespace dos::train

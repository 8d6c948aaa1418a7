// SPDX-License-Identifier: Apache-2.0
#include "train/plan_model.hpp"

#include <gtest/gtest.h>

#include <map>

#include "base/error.hpp"

namespace dos::train {
namespace {

std::map<Index, Index> by_depth(const planner::ModelShape& shape) {
  std::map<Index, Index> params;
  for (const planner::TensorSize& tensor : shape.tensors) params[tensor.depth] += tensor.params;
  return params;
}

/// The planner's own GPT shapes have the parameters that this project's GPT-2 would have.
TEST(PlannedModel, GptShapesAreThoseOfTheModel) {
  const planner::ModelShape planned = find_planned_model("gpt3-175b");
  const planner::ModelShape built =
      planned_shape("gpt3-175b", {"gpt2", 96, 12288, 96, 2048, 50257});
  EXPECT_EQ(by_depth(planned), by_depth(built));
  EXPECT_EQ(planned.ffn, built.ffn);
}

TEST(PlannedModel, UnknownNamesAreRefused) {
  EXPECT_THROW(find_planned_model("gpt3-175"), Error);
  EXPECT_EQ(find_planned_model("gpt-1t").layers, 128);
}

}  // namespace
}  // namespace dos::train

// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace dos::nearest_test {
namespace {

const std::array<std::string, 3> kNames{"train.steps", "train.seed", "optim.lr"};

TEST(NearestName, FindsTheClosest) {
  EXPECT_EQ(nearest_name("train.step", kNames), "train.steps");
  EXPECT_EQ(nearest_name("train.sed", kNames), "train.seed");
  EXPECT_EQ(did_you_mean("optim.rl", kNames), " (did you mean 'optim.lr'?)");
}

TEST(NearestName, SaysNothingWhenNothingIsClose) {
  EXPECT_EQ(nearest_name("xyzzy", kNames), "");
  EXPECT_EQ(did_you_mean("xyzzy", kNames), "");
  EXPECT_EQ(nearest_name("a", {}), "");
}

}  // namespace
}  // namespace dos::nearest_test

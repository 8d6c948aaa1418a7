// SPDX-License-Identifier: Apache-2.0
// What follows from the sizes alone; tests/offload/home_plan_test.cpp has layouts of models.
#include "shape/home_split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace dos::shape {
namespace {

constexpr Index kLarge = 64'000;
constexpr Index kSmall = 1'000;

/// Forty of them, each fifth small.
std::vector<Index> sizes() {
  std::vector<Index> all(40, kLarge);
  for (std::size_t i = 0; i < all.size(); i += 5) all[i] = kSmall;
  return all;
}

TEST(HomeSplit, KeepsSmallOnesOnDevices) {
  const HomeSplit split =
      split_homes(sizes(), 8, {.host = 30 * kLarge, .devices = {10 * kLarge}, .disks = 0});
  for (std::size_t i = 0; i < split.device.size(); i += 5) EXPECT_EQ(split.device[i], 0) << i;
  EXPECT_EQ(std::ranges::count(split.device, 0), 8 + 9) << "eight take an eighth of a large one";
  EXPECT_THAT(split.on_disk, testing::IsEmpty());
}

TEST(HomeSplit, KeepsSmallOnesOffDisks) {
  const HomeSplit split = split_homes(sizes(), 8, {.host = 20 * kLarge, .devices = {}, .disks = 1});
  EXPECT_EQ(split.slots, 8);
  EXPECT_EQ(std::ssize(split.on_disk), 32 - 11) << "of twelve the small ones take an eighth";
  EXPECT_TRUE(std::ranges::is_sorted(split.on_disk));
  for (const std::size_t i : split.on_disk) EXPECT_NE(i % 5, 0U);
}

// Host memory that is slots alone.
TEST(HomeSplit, PutsSmallOnesOnDisksWhereNothingElseHasRoom) {
  const HomeSplit split = split_homes(sizes(), 8, {.host = 8 * kLarge, .devices = {}, .disks = 1});
  EXPECT_EQ(std::ssize(split.on_disk), 40);
  EXPECT_TRUE(std::ranges::is_sorted(split.on_disk));
}

}  // namespace
}  // namespace dos::shape

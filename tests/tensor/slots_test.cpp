// SPDX-License-Identifier: Apache-2.0
#include "tensor/slots.hpp"

#include <gmock/gmock.h>

namespace dos::tensor::slots_test {
namespace {

using ::testing::ElementsAre;

/// Subgroup sizes by depth.
shape::Layout layout_of(const std::vector<std::vector<Index>>& depths) {
  shape::Layout layout;
  for (std::size_t depth = 0; depth < depths.size(); ++depth)
    for (const Index count : depths[depth])
      layout.subgroups.push_back(
          {.name = "s", .count = count, .depth = static_cast<Index>(depth), .decay = false});
  return layout;
}

TEST(Slots, OfNothing) {
  EXPECT_EQ(Slots(shape::Layout{}, 2).depths(), 0);
}

TEST(Slots, AsManyLikeDepthsAsSetsKeepTheirOwn) {
  const Slots slots(layout_of({{7}, {5, 1}, {5, 1}, {1}}), 2);
  for (Index depth = 0; depth < 4; ++depth) EXPECT_FALSE(slots.are_shared(depth));
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(slots.slot_of(i), i);
}

TEST(Slots, LikeDepthsTakeTheSetsInTurn) {
  const Slots slots(layout_of({{7}, {5, 1}, {5, 1}, {5, 1}, {5, 1}, {5, 1}, {1}}), 2);
  EXPECT_FALSE(slots.are_shared(0));
  EXPECT_FALSE(slots.are_shared(6));
  EXPECT_NE(slots.set_of(1), slots.set_of(2));
  EXPECT_EQ(slots.set_of(1), slots.set_of(3));
  EXPECT_EQ(slots.set_of(2), slots.set_of(4));
  EXPECT_THAT(slots.members(3), ElementsAre(5, 6));
  EXPECT_EQ(slots.slot_of(5), 1);
  EXPECT_EQ(slots.slot_of(6), 2);
  EXPECT_EQ(slots.slot_of(7), 3);
  EXPECT_EQ(slots.slot_of(9), 1);
}

TEST(Slots, DepthZeroKeepsItsOwnEvenAmongLikeOnes) {
  const Slots slots(layout_of({{5}, {5}, {5}, {5}}), 2);
  EXPECT_FALSE(slots.are_shared(0));
  EXPECT_TRUE(slots.are_shared(1));
}

TEST(Slots, TwoKindsOfLayersHaveSetsOfTheirOwn) {
  const Slots slots(layout_of({{1}, {5}, {9}, {5}, {9}, {5}, {9}}), 2);
  EXPECT_EQ(slots.set_of(1), slots.set_of(5));
  EXPECT_EQ(slots.set_of(2), slots.set_of(6));
  EXPECT_NE(slots.set_of(1), slots.set_of(2));
  EXPECT_EQ(slots.slot_of(6), 2);
}

}  // namespace
}  // namespace dos::tensor::slots_test

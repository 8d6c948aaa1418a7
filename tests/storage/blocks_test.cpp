// SPDX-License-Identifier: Apache-2.0
#include "storage/blocks.hpp"

#include <gmock/gmock.h>

#include <random>

namespace dos::storage::blocks_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Index kUnit = 4096;
constexpr Index kBlock = 1 << 20;

TEST(Blocks, OfNothingAreNone) {
  EXPECT_THAT(cut_into_blocks(5, 0, kUnit, kBlock), IsEmpty());
}

TEST(Blocks, LeaveUnitsThatAreNotWholeToThePageCache) {
  EXPECT_THAT(cut_into_blocks(kUnit - 1, 100 * kUnit, kUnit, kBlock),
              ElementsAre(Block{kUnit - 1, 1, false}, Block{kUnit, 99 * kUnit, true},
                          Block{100 * kUnit, kUnit - 1, false}));
  EXPECT_THAT(cut_into_blocks(0, kLeastDirect, kUnit, kBlock),
              ElementsAre(Block{0, kLeastDirect, true}));
  EXPECT_THAT(cut_into_blocks(0, kLeastDirect - 1, kUnit, kBlock),
              ElementsAre(Block{0, kLeastDirect - 1, false}));
  EXPECT_THAT(cut_into_blocks(0, kBlock + 1, 0, kBlock),
              ElementsAre(Block{0, kBlock, false}, Block{kBlock, 1, false}));
}

TEST(Blocks, CoverAnyRangeOnceInOrder) {
  std::mt19937_64 random(7);
  const auto draw = [&](Index most) {
    return std::uniform_int_distribution<Index>(0, most)(random);
  };
  for (int i = 0; i < 2000; ++i) {
    const Index unit = Index{512} << draw(4);
    const Index block = unit * (1 + draw(300));
    const Index offset = draw(3 * unit);
    const Index bytes = draw(20 * block);
    Index next = offset;
    for (const Block& each : cut_into_blocks(offset, bytes, draw(1) == 0 ? 0 : unit, block)) {
      ASSERT_EQ(each.offset, next);
      ASSERT_GT(each.bytes, 0);
      ASSERT_LE(each.bytes, block);
      if (each.is_direct) {
        ASSERT_EQ(each.offset % unit, 0);
        ASSERT_EQ(each.bytes % unit, 0);
      }
      next += each.bytes;
    }
    ASSERT_EQ(next, offset + bytes);
  }
}

}  // namespace
}  // namespace dos::storage::blocks_test

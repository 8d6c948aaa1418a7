// SPDX-License-Identifier: Apache-2.0
#include "base/small_sizes.hpp"

#include <gmock/gmock.h>

#include <array>

namespace dos {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SmallSizes, AreThoseOfNoMoreThanA64thOfTheLargest) {
  const std::array<Index, 5> sizes{64'000, 1'000, 1'001, 1, 64'000};
  const BySmallness result = by_smallness(sizes);
  EXPECT_THAT(result.small, ElementsAre(1, 3));
  EXPECT_THAT(result.others, ElementsAre(0, 2, 4));
}

TEST(SmallSizes, AreNoneAmongEqualOnes) {
  EXPECT_THAT(by_smallness(std::array<Index, 2>{7, 7}).small, IsEmpty());
  EXPECT_THAT(by_smallness({}).others, IsEmpty());
}

}  // namespace
}  // namespace dos

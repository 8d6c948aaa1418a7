// SPDX-License-Identifier: Apache-2.0
#include "base/common_sizes.hpp"

#include <gmock/gmock.h>

namespace dos::common_sizes_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CommonSizes, AreThoseOfTheLargestNearby) {
  // Row blocks of a model's matrices, and its vectors.
  const std::vector<Index> sizes{9'666'560, 9'994'240, 10'240, 8'192'000, 9'994'240, 5'120};
  EXPECT_THAT(common_sizes(sizes),
              ElementsAre(9'994'240, 9'994'240, 10'240, 9'994'240, 9'994'240, 5'120));
}

TEST(CommonSizes, WasteNoMoreThanTheyMay) {
  EXPECT_THAT(common_sizes(std::vector<Index>{75, 100, 74, 56, 55}),
              ElementsAre(100, 100, 74, 74, 55))
      << "three quarters of 100, and of 74 but for 55";
}

TEST(CommonSizes, OfNothingAreNone) {
  EXPECT_THAT(common_sizes({}), IsEmpty());
  EXPECT_THAT(common_sizes(std::vector<Index>{0, 3, 0}), ElementsAre(0, 3, 0));
}

}  // namespace
}  // namespace dos::common_sizes_test

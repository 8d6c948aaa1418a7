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
              ElementsAre(9'994'240, 9'994'240, 10'240, 9'994'240, 9'994'240, 10'240));
}

TEST(CommonSizes, WasteNoMoreThanTheyMay) {
  EXPECT_THAT(common_sizes(std::vector<Index>{50, 100, 49}), ElementsAre(100, 100, 49))
      << "150 of 200 are filled; with 49 it would be 199 of 300";
  EXPECT_THAT(common_sizes(std::vector<Index>{100, 100, 100, 25, 24}),
              ElementsAre(100, 100, 100, 100, 24))
      << "24 is less than a quarter";
}

// Blocks of matrices between two thirds and all of the largest: each size that has memory of its
// own takes it from weights where streamed updates change from one to another.
TEST(CommonSizes, OfAModelsMatricesAreOne) {
  std::vector<Index> sizes;
  for (const Index size : {6'438'912, 6'291'456, 5'591'040, 4'194'304})
    sizes.insert(sizes.end(), 24, size);
  for (const Index size : common_sizes(sizes)) EXPECT_EQ(size, 6'438'912);
}

TEST(CommonSizes, OfNothingAreNone) {
  EXPECT_THAT(common_sizes({}), IsEmpty());
  EXPECT_THAT(common_sizes(std::vector<Index>{0, 3, 0}), ElementsAre(0, 3, 0));
}

}  // namespace
}  // namespace dos::common_sizes_test

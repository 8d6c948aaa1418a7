// SPDX-License-Identifier: Apache-2.0
#include "shape/owners.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/random.hpp"

namespace dos::shape::owners_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<double> equal(Index ranks) {
  return std::vector<double>(static_cast<std::size_t>(ranks), 1.0);
}

TEST(Owners, NothingToOwn) {
  EXPECT_THAT(assign_owners({}, equal(3)), IsEmpty());
}

TEST(Owners, OneRankOwnsAll) {
  EXPECT_THAT(assign_owners(std::vector<Index>{5, 0, 7}, equal(1)), Each(0));
}

TEST(Owners, MoreRanksThanSubgroupsLeaveSomeWithout) {
  EXPECT_THAT(assign_owners(std::vector<Index>{3, 4}, equal(5)), ElementsAre(1, 0));
}

TEST(Owners, EqualSubgroupsGoRound) {
  EXPECT_THAT(assign_owners(std::vector<Index>{8, 8, 8, 8, 8}, equal(2)),
              ElementsAre(0, 1, 0, 1, 0));
}

TEST(Owners, LargeOnesComeFirst) {
  EXPECT_THAT(assign_owners(std::vector<Index>{1, 1, 2, 4}, equal(2)), ElementsAre(1, 1, 1, 0));
}

TEST(Owners, AFasterRankOwnsMore) {
  const std::vector<Index> counts(30, 10);
  const std::vector<Index> owners = assign_owners(counts, std::vector<double>{1, 2});
  EXPECT_EQ(std::count(owners.begin(), owners.end(), 0), 10);
  EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), 20);
}

// The rank that ends last got its last subgroup when all others would have ended later with it.
TEST(Owners, TimesDifferByOneSubgroupAtMost) {
  const Philox random(3);
  for (const Index ranks : {2, 3, 7, 64}) {
    std::vector<Index> counts(200);
    for (std::size_t i = 0; i < counts.size(); ++i)
      counts[i] = static_cast<Index>(random.uniform(i) * 1000);
    std::vector<double> weights(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.5 + random.uniform(1000 + i);
    const std::vector<Index> owners = assign_owners(counts, weights);
    std::vector<double> times(weights.size(), 0);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto owner = static_cast<std::size_t>(owners[i]);
      times[owner] += static_cast<double>(counts[i]) / weights[owner];
    }
    const double largest = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
    const double slowest = *std::min_element(weights.begin(), weights.end());
    const auto [first, last] = std::minmax_element(times.begin(), times.end());
    EXPECT_LE(*last - *first, largest / slowest) << ranks;
  }
}

TEST(Weights, AreOneEachUnlessGiven) {
  EXPECT_THAT(parse_weights("dist.weights", "", 3), ElementsAre(1, 1, 1));
  EXPECT_THAT(parse_weights("dist.weights", "1,0.5,2e1", 3), ElementsAre(1, 0.5, 20));
}

TEST(Weights, AreOnePositiveNumberARank) {
  const auto message = [](const char* text) {
    try {
      parse_weights("dist.weights", text, 2);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message("1"), HasSubstr("has 1 weights for 2 ranks"));
  EXPECT_THAT(message("1,2,3"), HasSubstr("has 3 weights for 2 ranks"));
  for (const char* text : {"1,0", "1,-2", "1,x", "1,", "nan,1", "1,2x", "inf,1"})
    EXPECT_THAT(message(text), HasSubstr("dist.weights")) << text;
}

}  // namespace
}  // namespace dos::shape::owners_test

// SPDX-License-Identifier: Apache-2.0
#include "ranks/tags.hpp"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "base/error.hpp"

namespace dos::ranks::tags_test {
namespace {

constexpr Index kLargestTag = 32767;  // the least that the standard promises

TEST(Tags, DifferByKindNumberAndRound) {
  for (const Index numbers : {0, 1, 2, 100, 455}) {
    const Tags tags(numbers, kLargestTag);
    ASSERT_GE(tags.rounds(), Tags::kLeastRounds);
    std::map<Index, std::tuple<Index, Index, Index>> seen;
    for (Index kind = 0; kind < kKinds; ++kind)
      for (Index number = 0; number < std::max<Index>(numbers, 1); ++number)
        for (Index round = 0; round < Tags::kLeastRounds; ++round) {
          const Index tag = tags.of({static_cast<Kind>(kind), number, round});
          EXPECT_GE(tag, 0);
          EXPECT_LE(tag, kLargestTag);
          EXPECT_TRUE(seen.try_emplace(tag, kind, number, round).second) << tag;
        }
  }
}

TEST(Tags, RoundsComeBack) {
  const Tags tags(10, kLargestTag);
  EXPECT_EQ(tags.of({Kind::kLoss, 3, 2}), tags.of({Kind::kLoss, 3, 2 + tags.rounds()}));
  EXPECT_EQ(tags.of({Kind::kLoss, 3, 2}), tags.of({Kind::kLoss, 3, 2 + 5 * tags.rounds()}));
}

TEST(Tags, TooManySubgroupsAreAnError) {
  const Index most = (kLargestTag + 1) / (kKinds * Tags::kLeastRounds);
  EXPECT_NO_THROW(Tags(most, kLargestTag));
  EXPECT_THROW(Tags(most + 1, kLargestTag), Error);
}

TEST(Tags, UnknownNumbersAreRefused) {
  const Tags tags(4, kLargestTag);
  EXPECT_THROW(static_cast<void>(tags.of({Kind::kLoss, 4, 0})), ContractViolation);
  EXPECT_THROW(static_cast<void>(tags.of({Kind::kLoss, -1, 0})), ContractViolation);
}

}  // namespace
}  // namespace dos::ranks::tags_test

// SPDX-License-Identifier: Apache-2.0
#include "trace/report/intervals.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/random.hpp"

namespace dos::trace::intervals_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Intervals, EdgeCases) {
  EXPECT_THAT(unite({}), IsEmpty());
  EXPECT_THAT(unite({{1, 1}, {3, 2}}), IsEmpty());
  EXPECT_THAT(unite({{2, 3}, {0, 1}, {1, 2}}), ElementsAre(Interval{0, 3}));
  EXPECT_THAT(unite({{0, 9}, {1, 2}}), ElementsAre(Interval{0, 9}));
  EXPECT_THAT(intersect({}, {{0, 1}}), IsEmpty());
  EXPECT_THAT(intersect({{0, 2}}, {{2, 3}}), IsEmpty());
  EXPECT_THAT(subtract({{0, 2}}, {}), ElementsAre(Interval{0, 2}));
  EXPECT_THAT(subtract({{0, 2}}, {{0, 2}}), IsEmpty());
  EXPECT_THAT(subtract({{0, 9}}, {{1, 2}, {4, 5}}),
              ElementsAre(Interval{0, 1}, Interval{2, 4}, Interval{5, 9}));
  EXPECT_THAT(subtract({{0, 2}, {3, 5}}, {{1, 4}}), ElementsAre(Interval{0, 1}, Interval{4, 5}));
  EXPECT_EQ(length({}), 0);
  EXPECT_EQ(covered({{0, 2}, {3, 5}}, 1, 4), 2);
  EXPECT_EQ(covered({{0, 2}}, 2, 3), 0);
}

TEST(Intervals, WhatOverlapsHasRowsOfItsOwn) {
  EXPECT_THAT(rows_of({}, 2), IsEmpty());
  EXPECT_THAT(rows_of({{0, 4}, {1, 2}, {2, 3}, {4, 5}}, 9), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(rows_of({{0, 9}, {1, 4}, {2, 6}, {5, 8}}, 2), ElementsAre(0, 1, 1, 1));
}

/// Against sets of whole numbers.
TEST(Intervals, AgreeWithSets) {
  constexpr int kEnd = 40;
  const Philox random(3);
  std::uint64_t next = 0;
  const auto any = [&] {
    std::vector<Interval> result;
    for (int i = 0; i < 6; ++i) {
      const double start = std::floor(random.uniform(next++) * kEnd);
      result.push_back({start, start + std::floor(random.uniform(next++) * 8)});
    }
    return result;
  };
  const auto holds = [](const std::vector<Interval>& all, double time) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Interval& each) { return each.start <= time && time < each.end; });
  };
  for (int round = 0; round < 200; ++round) {
    const std::vector<Interval> a = any();
    const std::vector<Interval> b = any();
    const Intervals both = intersect(unite(a), unite(b));
    const Intervals rest = subtract(unite(a), unite(b));
    double common = 0;
    for (int i = 0; i < kEnd + 8; ++i) {
      const double time = i + 0.5;
      EXPECT_EQ(holds(unite(a), time), holds(a, time));
      EXPECT_EQ(holds(both, time), holds(a, time) && holds(b, time));
      EXPECT_EQ(holds(rest, time), holds(a, time) && !holds(b, time));
      common += holds(a, time) && holds(b, time) ? 1 : 0;
    }
    EXPECT_EQ(length(both), common);
    EXPECT_EQ(covered(unite(a), 5, 17), length(intersect(unite(a), {{5, 17}})));
  }
}

}  // namespace
}  // namespace dos::trace::intervals_test

// SPDX-License-Identifier: Apache-2.0
#include "base/range.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace dos::range_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Range, EndsBelongToItUnlessItSaysOtherwise) {
  EXPECT_TRUE(between(0, 1).holds(0));
  EXPECT_TRUE(between(0, 1).holds(1));
  EXPECT_FALSE(between(0, 1).holds(std::nextafter(1, 2)));
  EXPECT_FALSE(kPositive.holds(0));
  EXPECT_TRUE(kPositive.holds(std::numeric_limits<double>::denorm_min()));
  EXPECT_TRUE(kNotNegative.holds(0));
  EXPECT_FALSE((Range{.least = 0, .most = 1, .has_most = false}).holds(1));
}

TEST(Range, OneNumberOutsideMayHaveAMeaning) {
  constexpr Range range{.least = 0, .most = 1, .also = -1};
  EXPECT_TRUE(range.holds(-1));
  EXPECT_FALSE(range.holds(-0.5));
}

TEST(Range, NeverHoldsInfinityOrWhatIsNoNumber) {
  for (const Range& range : {Range{}, at_least(0), kPositive, between(-1, 1)})
    for (const double number : {kInfinity, -kInfinity, std::nan("")})
      EXPECT_FALSE(range.holds(number)) << range.text() << ", " << number;
}

TEST(Range, SaysWhatItIs) {
  EXPECT_EQ(at_least(1).text(), "be at least 1");
  EXPECT_EQ(between(0, 1e6).text(), "lie in [0, 1e+06]");
  EXPECT_EQ((Range{.least = 0, .most = 1, .has_most = false, .note = " GB"}).text(),
            "lie in [0, 1) GB");
  EXPECT_EQ(kPositive.text(), "be positive");
}

TEST(Range, ErrorsNameAndQuoteTheValue) {
  EXPECT_NO_THROW(expect_in(at_least(1), "a.b", 1));
  EXPECT_THAT([] { expect_in(between(0, 1), "a.b", 1.5F); },
              testing::ThrowsMessage<Error>("a.b must lie in [0, 1], got 1.5"));
  EXPECT_THAT([] { expect_in(at_least(0), "a.b", std::numeric_limits<std::int64_t>::min()); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("got -9223372036854775808")));
}

}  // namespace
}  // namespace dos::range_test

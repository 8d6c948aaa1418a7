// SPDX-License-Identifier: Apache-2.0
#include "data/utf8.hpp"

#include <gmock/gmock.h>

#include <vector>

#include "base/error.hpp"

namespace dos::data::utf8_test {
namespace {

using std::string_view_literals::operator""sv;

// The Unicode Standard, table 3-8 to 3-11: substitution of maximal subparts.
TEST(Utf8, CountsWhatOneReplacementStandsFor) {
  const std::pair<std::string_view, std::vector<std::size_t>> cases[] = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82", {1, 1, 1, 1, 1, 1, 1, 1}},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF", {1, 1, 1, 1, 1, 1, 1, 1}},
      {"\xF4\x91\x92\x93\xFF\x80\xBF", {1, 1, 1, 1, 1, 1, 1}},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF", {2, 1, 3, 2}}};
  for (const auto& [text, expected] : cases) {
    std::vector<std::size_t> counted;
    for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(counted.back()))
      counted.push_back(utf8_wrong(rest));
    EXPECT_EQ(counted, expected);
  }
  EXPECT_THROW((void)utf8_wrong(""), std::logic_error);
  EXPECT_THROW((void)utf8_wrong("a"), std::logic_error);
}

TEST(Utf8, MeasuresTheFirstCharacter) {
  struct Case {
    std::string_view text;
    std::size_t length;
  };
  const Case cases[] = {
      {"", 0},
      {"\0"sv, 1},
      {"\x7F", 1},
      {"\xC2\x80", 2},
      {"\xE0\xA0\x80", 3},
      {"\xED\x9F\xBF", 3},
      {"\xEE\x80\x80", 3},
      {"\xEF\xBF\xBD", 3},
      {"\xF0\x90\x80\x80", 4},
      {"\xF4\x8F\xBF\xBFx", 4},
      {"\x80", 0},              // a continuation byte
      {"\xC0\x80", 0},          // overlong
      {"\xC1\xBF", 0},          // overlong
      {"\xE0\x9F\xBF", 0},      // overlong
      {"\xF0\x8F\xBF\xBF", 0},  // overlong
      {"\xED\xA0\x80", 0},      // a surrogate
      {"\xF4\x90\x80\x80", 0},  // above U+10FFFF
      {"\xF5\x80\x80\x80", 0},
      {"\xFF", 0},
      {"\xC3", 0},  // cut short
      {"\xE2\x96", 0},
      {"\xF0\x9F\x98", 0},
      {"\xC3x", 0},
      {"\xE2\x96x", 0},
  };
  for (const Case& c : cases) EXPECT_EQ(utf8_character(c.text), c.length) << c.text;
}

TEST(Utf8, BoundaryNeverSplitsACharacter) {
  constexpr std::string_view kText = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  const std::size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};
  for (std::size_t i = 0; i <= kText.size(); ++i) EXPECT_EQ(utf8_boundary(kText, i), expected[i]);
  EXPECT_THROW((void)utf8_boundary(kText, 11), ContractViolation);
}

TEST(Utf8, BoundaryInBytesThatAreNoTextIsAsWanted) {
  constexpr std::string_view kBytes = "\x80\x80\x80\x80\xFF\xFF";
  for (std::size_t i = 0; i <= kBytes.size(); ++i) EXPECT_EQ(utf8_boundary(kBytes, i), i);
}

TEST(Utf8, PartsEndBehindALineOrACharacter) {
  EXPECT_EQ(line_part("", 4), 0U);
  EXPECT_EQ(line_part("abcd", 4), 4U);
  EXPECT_EQ(line_part("abcde", 4), 4U);
  EXPECT_EQ(line_part("a\nb\ncd", 5), 4U);
  EXPECT_EQ(line_part("a\nbcd", 5), 5U);  // all of it: a part need not end with a line
  EXPECT_EQ(line_part("abc\xC3\xA9", 4), 3U);
  EXPECT_EQ(line_part("\xF0\x9F\x98\x80x", 4), 4U);
  EXPECT_THROW((void)line_part("abc", 3), ContractViolation);
}

}  // namespace
}  // namespace dos::data::utf8_test

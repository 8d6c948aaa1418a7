// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/pattern.hpp"

#include "data/files.hpp"
#include "data/tokenizer_reference.hpp"

namespace dos::data::bpe::bpe_pattern_test {
namespace {

using nlohmann::json;

std::vector<std::string> pieces(const Pattern& pattern, const std::string& text) {
  std::vector<std::string> result;
  for (std::size_t first = 0; first < text.size();) {
    const Extent match = pattern.find(text, first);
    if (match.first > first) result.push_back(text.substr(first, match.first - first));
    if (match.first < match.last)
      result.push_back(text.substr(match.first, match.last - match.first));
    first = match.last;
  }
  return result;
}

std::string utf8_of(unsigned code) {
  const auto tail = [code](unsigned shift) {
    return static_cast<char>(0x80U | (code >> shift & 0x3FU));
  };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0U | code >> 6U), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0U | code >> 12U), tail(6), tail(0)};
  return {static_cast<char>(0xF0U | code >> 18U), tail(12), tail(6), tail(0)};
}

std::vector<bool> characters_in(const json& ranges) {
  std::vector<bool> result(0x110000);
  for (const json& range : ranges)
    for (unsigned code = range[0]; code <= range[1].get<unsigned>(); ++code) result[code] = true;
  return result;
}

TEST(BpePattern, ClassesOfEveryCharacterAreTheLibrarys) {
  // PCRE2's Unicode may be older or newer than the table's: what both know is compared.
  const Pattern assigned = Pattern::pcre2("\\P{Cn}");
  const json reference = test::expected_tokens();
  const std::vector<bool> known = characters_in(reference["known"]);
  ASSERT_EQ(reference["classes"].size(), 3U);
  for (const auto& [expression, ranges] : reference["classes"].items()) {
    const Pattern pattern = Pattern::regex(expression, "test");
    const std::vector<bool> expected = characters_in(ranges);
    unsigned compared = 0;
    for (unsigned code = 0; code < known.size(); ++code) {
      const std::string character = known[code] ? utf8_of(code) : "";
      if (character.empty() || assigned.find(character, 0).first != 0) continue;
      ++compared;
      const bool is_in = pattern.find(character, 0).first == 0;
      ASSERT_EQ(is_in, expected[code]) << expression << " " << code;
    }
    EXPECT_GT(compared, 280'000U);
  }
}

TEST(BpePattern, CutsAsGpt2Does) {
  const Pattern gpt2 = Pattern::regex(kGpt2Expression, "test");
  const std::vector<std::string> expected{"I",  "'ve", " 12", "  ", " cat",
                                          "!!", "\n",  "\n",  "x",  "  "};
  EXPECT_EQ(pieces(gpt2, "I've 12   cat!!\n\nx  "), expected);
}

TEST(BpePattern, ATextStandsForItself) {
  const Pattern dots = Pattern::literal("..", "test");
  EXPECT_EQ(pieces(dots, "a.b...c"), (std::vector<std::string>{"a.b", "..", ".c"}));
}

TEST(BpePattern, WhatFollowsTheStartDecides) {
  // A text may be cut anywhere a match begins: what is before does not matter.
  const Pattern gpt2 = Pattern::regex(kGpt2Expression, "test");
  const std::string text = "a1 b'll\n\n  c";
  for (std::size_t first = 0; first < text.size(); ++first) {
    const Extent inside = gpt2.find(text, first);
    const Extent alone = gpt2.find(text.substr(first), 0);
    EXPECT_EQ(inside, (Extent{alone.first + first, alone.last + first}));
  }
}

TEST(BpePattern, RefusesWhatEnginesReadDifferently) {
  struct Case {
    std::string expression;
    std::string complaint;
  };
  const Case cases[] = {
      {R"(\w+)", R"('\\w' at character 1)"}, {R"(a\b)", R"('\\b' at character 2)"},
      {"^a", "'^' at character 1"},          {"a$", "'$' at character 2"},
      {"a.b", "'.' at character 2"},         {"a{2}+", "'}+' at character 4"},
      {"(?<=a)b", "a group other than"},     {"(?>a)", "a group other than"},
      {"(?i)a", "a group other than"},       {"[a[b]]", "'[' in a class at character 3"},
      {"[a&&b]", "'&&' in a class"},         {"[]a]", "']' as the first of a class"},
      {R"(\p{Han})", "the property 'Han'"},  {R"(\p{^L})", "the property '^L'"},
      {R"(\pL)", "a property without {}"},   {R"(\p{L)", "a property without {}"},
      {"a\\", "'\\' without a character"},   {"\\\xC3\xA9", "at character 1"},
      {"a*", "matches the empty text"},      {"", "matches the empty text"},
      {"(a", "is no regular expression"},    {"a|(?!b)", "matches the empty text"},
  };
  for (const Case& c : cases)
    EXPECT_THAT([&] { (void)Pattern::regex(c.expression, "x.json"); },
                test::fails_with({"x.json: the pattern", c.complaint}))
        << c.expression;
  EXPECT_THAT([] { (void)Pattern::literal("", "x.json"); }, test::fails_with({"the empty text"}));
}

TEST(BpePattern, GivesUpInWords) {
  const Pattern bad = Pattern::regex("(?:[ab]+)+[0-9]", "x.json");
  const std::string text = std::string(60, 'a') + "x";
  EXPECT_THAT(
      [&] { (void)bad.find(text, 0); },
      test::fails_with({"x.json: the pattern '(?:[ab]+)+[0-9]' cannot be matched", "limit"}));
}

}  // namespace
}  // namespace dos::data::bpe::bpe_pattern_test

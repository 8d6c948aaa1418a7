// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/normal_form.hpp"

#include <gtest/gtest.h>

namespace dos::data::bpe::normal_form_test {
namespace {

/// UTF-8 of a character of three bytes.
std::string utf8(unsigned character) {
  return {static_cast<char>(0xE0U | (character >> 12U)),
          static_cast<char>(0x80U | ((character >> 6U) & 0x3FU)),
          static_cast<char>(0x80U | (character & 0x3FU))};
}

std::string form_of(const std::string& text) {
  return composed(text).value_or(text);
}

constexpr unsigned kFirstSyllable = 0xAC00;
constexpr unsigned kVowels = 21;
constexpr unsigned kEnds = 28;  ///< with none

// The Unicode Standard, chapter 3.12: syllables are numbered by their parts.
TEST(NormalForm, JoinsTheSecondPartsOfHangulThatMakeSyllables) {
  for (unsigned first = 0x1100; first <= 0x115F; ++first)
    for (unsigned second = 0x1160; second <= 0x11FF; ++second) {
      const bool joins = first <= 0x1112 && second >= 0x1161 && second <= 0x1175;
      const unsigned syllable =
          kFirstSyllable + ((first - 0x1100) * kVowels + (second - 0x1161)) * kEnds;
      const std::string text = utf8(first) + utf8(second);
      EXPECT_EQ(form_of(text), joins ? utf8(syllable) : text) << first << ' ' << second;
    }
}

TEST(NormalForm, JoinsTheThirdPartsOfHangulThatEndSyllables) {
  for (unsigned syllable = kFirstSyllable; syllable < kFirstSyllable + 3 * kEnds; ++syllable)
    for (unsigned third = 0x1160; third <= 0x11FF; ++third) {
      const bool is_open = (syllable - kFirstSyllable) % kEnds == 0;
      const bool joins = is_open && third >= 0x11A8 && third <= 0x11C2;
      const std::string text = utf8(syllable) + utf8(third);
      EXPECT_EQ(form_of(text), joins ? utf8(syllable + third - 0x11A7) : text)
          << syllable << ' ' << third;
    }
}

TEST(NormalForm, KeepsMarksBehindPartsThatJoinNothing) {
  // A mark above before one below: the second goes first, whatever stands before them.
  const std::string above = "\xCC\x81";
  const std::string below = "\xCC\xA3";
  for (const unsigned part : {0x1160U, 0x11A7U, 0x11C3U, 0x11FFU})
    EXPECT_EQ(form_of(utf8(kFirstSyllable) + utf8(part) + above + below),
              utf8(kFirstSyllable) + utf8(part) + below + above);
}

}  // namespace
}  // namespace dos::data::bpe::normal_form_test

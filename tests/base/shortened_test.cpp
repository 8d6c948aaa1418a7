// SPDX-License-Identifier: Apache-2.0
#include "base/shortened.hpp"

#include <gtest/gtest.h>

namespace dos::shortened_test {
namespace {

std::string times(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(Shortened, LeavesWhatCanBeMeant) {
  const std::string path = times("/folder", 4096 / 7);
  for (const std::string& text : {std::string(), std::string(" "), std::string("a  b\n\nc "), path,
                                  times("word ", 5000), times("é", 2048)})
    EXPECT_EQ(shortened(text), text);
}

TEST(Shortened, CutsLongWordsWhereverTheyStand) {
  const std::string cut = times("x", 60) + "... (4097 bytes)";
  const std::string word = times("x", 4097);
  EXPECT_EQ(shortened(word), cut);
  EXPECT_EQ(shortened("a " + word + " b\n" + word + "\n"), "a " + cut + " b\n" + cut + "\n");
}

TEST(Shortened, LeavesNoHalfCharacter) {
  EXPECT_EQ(shortened("a" + times("é", 3000)), "a" + times("é", 29) + "... (6001 bytes)");
}

}  // namespace
}  // namespace dos::shortened_test

// SPDX-License-Identifier: Apache-2.0
#include "base/toml_depth.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "fails_with.hpp"

namespace dos::toml_depth_test {
namespace {

using test::fails_with;

/// "a.a.a", of so many parts.
std::string key(int parts) {
  std::string text = "a";
  for (int i = 1; i < parts; ++i) text += ".a";
  return text;
}

void check(const std::string& text) {
  expect_shallow_toml(text, "x.toml");
}

TEST(TomlDepth, AllowsWhatFilesHave) {
  EXPECT_NO_THROW(check(""));
  EXPECT_NO_THROW(check(key(64) + " = 1"));
  // Each key counts for itself.
  EXPECT_NO_THROW(
      check(key(64) + " = 1\n[" + key(64) + "]\nx = {" + key(64) + " = 1, " + key(64) + " = 2}"));
}

TEST(TomlDepth, RefusesAKeyOfManyPartsWithItsLine) {
  for (const std::string& text :
       {"\n" + key(65) + " = 1", "\n[" + key(65) + "]", "\nx = {y = 1, " + key(65) + " = 1}",
        "\n" + key(100'000) + " = 1", "\n" + key(40) + ".\"b=\". 'c' ." + key(40) + " = 1"})
    EXPECT_THAT([&] { check(text); }, fails_with({"x.toml:2: a key of more than 64 parts"}));
}

TEST(TomlDepth, LooksAtNoDotsOfStringsAndComments) {
  const std::string dots(1000, '.');
  EXPECT_NO_THROW(check("# " + dots + "\nx = \"\\\"" + dots + "\" # \"" + dots));
  EXPECT_NO_THROW(check("x = '" + dots + "'\ny = '\\'\nz = '" + dots + "'"));
  EXPECT_NO_THROW(check("x = \"\"\"\n\"" + dots + "\n" + dots + "\"\"\"\ny =  + dots + "));
  // A string that does not end ends with its line, of which the parser says so.
  EXPECT_THAT([&] { check("x = \"" + dots + "\n" + key(65)); }, fails_with({"x.toml:2: a key"}));
}

}  // namespace
}  // namespace dos::toml_depth_test

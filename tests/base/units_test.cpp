// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"

#include <gtest/gtest.h>

namespace dos::units_test {
namespace {

TEST(FormatBytes, KeepsThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(Index{12} << 20), "12.0 MiB");
  EXPECT_EQ(format_bytes(Index{300} << 30), "300 GiB");
}

TEST(FormatDuration, PicksTheUnit) {
  EXPECT_EQ(format_duration(11.6), "12s");
  EXPECT_EQ(format_duration(200), "3m20s");
  EXPECT_EQ(format_duration(3720), "1h02m");
}

TEST(Units, ParseBytes) {
  EXPECT_EQ(parse_bytes("400GB"), 400'000'000'000);
  EXPECT_EQ(parse_bytes("1.5TiB"), (Index{3} << 40) / 2);
  EXPECT_EQ(parse_bytes("2MB"), 2'000'000);
  for (const char* text :
       {"", "GB", "4", "4 GB", "-4GB", "0GB", "nanGB", "infTB", "1e30TB", "4gb", "4GBx"})
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
}

}  // namespace
}  // namespace dos::units_test

// SPDX-License-Identifier: Apache-2.0
#include "base/bf16.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "reference/all.hpp"

namespace dos::bf16_test {
namespace {

struct Case {
  std::uint32_t fp32;
  std::uint16_t bf16;
};

TEST(BF16, RoundsToNearestTiesToEven) {
  const Case cases[] = {
      {0x00000000, 0x0000},  // 0
      {0x80000000, 0x8000},  // -0
      {0x3F800000, 0x3F80},  // 1
      {0x3F807FFF, 0x3F80},  // below a tie
      {0x3F808000, 0x3F80},  // a tie, to even: down
      {0x3F808001, 0x3F81},  // above it
      {0x3F818000, 0x3F82},  // a tie, to even: up
      {0xBF818000, 0xBF82},  // the same below 0
      {0x3FFFFFFF, 0x4000},  // carries into the exponent
      {0x00000001, 0x0000},  // the smallest denormal
      {0x00008001, 0x0001},  // rounds up to BF16's smallest denormal
      {0x007FFFFF, 0x0080},  // the largest denormal becomes normal
      {0x7F7F7FFF, 0x7F7F},  // the largest that stays finite
      {0x7F7F8000, 0x7F80},  // a tie at the upper end, to even: infinity
      {0xFF7FFFFF, 0xFF80},  // -FLT_MAX
      {0x7F800000, 0x7F80},  // infinity
      {0xFF800000, 0xFF80},
      {0x7F800001, 0x7FC0},  // a signalling NaN with nothing in its upper half
      {0x7FC00000, 0x7FC0},
      {0xFFFFFFFF, 0xFFFF},  // a NaN that an addition would make 0
  };
  for (const Case& c : cases) EXPECT_EQ(round_to_bf16(c.fp32), c.bf16) << std::hex << c.fp32;
}

TEST(BF16, EveryUpperHalfAndItsNeighboursAgreeWithArithmetic) {
  for (std::uint32_t upper = 0; upper <= 0xFFFF; ++upper) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const auto value = std::bit_cast<float>((upper << 16U) | lower);
      const float got = to_float(to_bf16(value));
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(got)) << std::hex << upper;
        continue;
      }
      ASSERT_EQ(static_cast<double>(got), reference::nearest_bf16(static_cast<double>(value)))
          << std::hex << upper << ' ' << lower;
    }
  }
}

}  // namespace
}  // namespace dos::bf16_test

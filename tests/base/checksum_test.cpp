// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.hpp"

#include <gmock/gmock.h>

#include "io/byte_pattern.hpp"

namespace dos::checksum_test {
namespace {

// The value that the XXH3 specification's reference program prints for no input.
constexpr const char* kOfNothing = "2d06800538d394c2";

TEST(Checksum, OfNothing) {
  EXPECT_EQ(hex_text(checksum_of({})), kOfNothing);
  EXPECT_EQ(hex_text(Checksum().value()), kOfNothing);
}

TEST(Checksum, DoesNotDependOnTheCuts) {
  // 240 and 256 are where XXH3 changes its method and its buffer fills.
  for (const Index size : {1, 16, 17, 239, 240, 241, 255, 256, 257, 4099}) {
    const auto bytes = test::byte_pattern(size, 0);
    for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, bytes.size() / 2, bytes.size()}) {
      Checksum checksum;
      checksum.update(std::span(bytes).first(cut));
      checksum.update(std::span(bytes).subspan(cut));
      EXPECT_EQ(checksum.value(), checksum_of(bytes)) << size << " cut at " << cut;
    }
  }
}

TEST(Checksum, SeesEveryBit) {
  auto bytes = test::byte_pattern(65, 0);
  const std::uint64_t before = checksum_of(bytes);
  for (std::byte& byte : bytes) {
    byte ^= std::byte{0x10};
    EXPECT_NE(checksum_of(bytes), before);
    byte ^= std::byte{0x10};
  }
}

TEST(Checksum, StartsAfreshAfterReset) {
  Checksum checksum;
  checksum.update(test::byte_pattern(10, 0));
  checksum.reset();
  EXPECT_EQ(hex_text(checksum.value()), kOfNothing);
}

TEST(HexText, RoundTrips) {
  for (const std::uint64_t word : {std::uint64_t{0}, std::uint64_t{0xA}, ~std::uint64_t{0}})
    EXPECT_EQ(parse_hex(hex_text(word)), word);
  EXPECT_EQ(hex_text(0xA), "000000000000000a");
}

TEST(HexText, RefusesAnythingElse) {
  for (const char* text : {"", "a", "00000000000000000", "000000000000000g", "-00000000000000a",
                           "0x0000000000000a", " 00000000000000a"})
    EXPECT_EQ(parse_hex(text), std::nullopt) << text;
}

}  // namespace
}  // namespace dos::checksum_test

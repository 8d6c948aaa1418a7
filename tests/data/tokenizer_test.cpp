// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer.hpp"

#include "data/files.hpp"

namespace dos::data::tokenizer_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(BytesTokenizer, DescribesItself) {
  const auto tokenizer = make_bytes_tokenizer();
  EXPECT_EQ(tokenizer->kind(), "bytes");
  EXPECT_EQ(tokenizer->vocabulary(), 257);
  EXPECT_EQ(tokenizer->end_of_text(), 256);
}

TEST(BytesTokenizer, TokensAreBytes) {
  const auto tokenizer = make_bytes_tokenizer();
  EXPECT_THAT(tokenizer->encode(""), IsEmpty());
  EXPECT_EQ(tokenizer->decode({}), "");
  EXPECT_THAT(tokenizer->encode("A\xC3\xA9\n"), ElementsAre(65, 0xC3, 0xA9, 10));
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(all)), all);
}

TEST(BytesTokenizer, EndOfTextDecodesToNothing) {
  EXPECT_EQ(make_bytes_tokenizer()->decode(std::array{65, 256, 66}), "AB");
}

TEST(BytesTokenizer, RefusesForeignTokens) {
  const auto tokenizer = make_bytes_tokenizer();
  for (const std::int32_t bad : {-1, 257}) {
    EXPECT_THAT(
        [&] {
          (void)tokenizer->decode(std::array{65, bad});
        },
        test::fails_with({"token " + std::to_string(bad), "bytes", "257"}));
  }
}

}  // namespace
}  // namespace dos::data::tokenizer_test

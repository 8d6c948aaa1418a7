// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/byte_level_bpe.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "data/files.hpp"
#include "data/tokenizer_reference.hpp"
#include "data/utf8.hpp"
#include "scratch_directory.hpp"

namespace dos::data::byte_level_bpe_test {
namespace {

using nlohmann::json;
using Tokens = std::vector<std::int32_t>;

class ByteLevelBpe : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Tokenizer> tokenizer_ = test::reference_tokenizer(GetParam());
  std::string text_ = read_text(test::tokenizer_reference() / "text.txt");
};

INSTANTIATE_TEST_SUITE_P(Reference, ByteLevelBpe, testing::ValuesIn(test::reference_names()),
                         [](const auto& each) { return each.param; });

TEST_P(ByteLevelBpe, TokensOfTheTextAreTheLibrarys) {
  const json expected = test::expected_tokens()["text"][GetParam()];
  const Tokens tokens = tokenizer_->encode(text_);
  EXPECT_GE(text_.size(), 100'000U);
  EXPECT_EQ(std::ssize(tokens), expected["tokens"].get<Index>());
  EXPECT_EQ(test::fnv_of(tokens), expected["fnv"].get<std::string>());
}

TEST_P(ByteLevelBpe, TokensOfLinesAreTheLibrarys) {
  const json expected = test::expected_tokens();
  ASSERT_GE(expected["lines"].size(), 8U);
  for (const json& line : expected["lines"])
    EXPECT_EQ(tokenizer_->encode(line["text"].get<std::string>()), line[GetParam()].get<Tokens>())
        << line["text"];
}

TEST_P(ByteLevelBpe, TokensBeforeAPromptAreTheLibrarys) {
  Tokens tokens(tokenizer_->begin_of_text().begin(), tokenizer_->begin_of_text().end());
  const Tokens of_text = tokenizer_->encode("a b");
  tokens.insert(tokens.end(), of_text.begin(), of_text.end());
  EXPECT_EQ(tokens, test::expected_tokens()["with_special_tokens"][GetParam()].get<Tokens>());
}

TEST_P(ByteLevelBpe, TokensOfRandomStringsAreTheLibrarys) {
  const auto names = test::reference_names();
  const auto place = static_cast<std::size_t>(std::ranges::find(names, GetParam()) - names.begin());
  for (const json& row : test::random_rows()) {
    const auto expected = row[1].get<std::string>().substr(8 * place, 8);
    const Tokens tokens = tokenizer_->encode(row[0].get<std::string>());
    ASSERT_EQ(test::fnv_of(tokens).substr(0, 8), expected)
        << row[0] << " " << fmt::format("{}", tokens);
  }
}

TEST_P(ByteLevelBpe, PartsInOrderAreTheWhole) {
  const Tokens whole = tokenizer_->encode(text_);
  for (const std::size_t limit : {4U, 5U, 97U, 4096U, 65'536U}) {
    Tokens tokens;
    std::size_t taken = 0;
    const auto parts = tokenizer_->parts(text_, limit);
    for (const TextPart& part : parts) taken = tokenizer_->encode_part(part, taken, tokens);
    EXPECT_EQ(taken, 0U);
    EXPECT_TRUE(tokens == whole) << limit;
    EXPECT_GT(parts.size(), text_.size() / (limit + 5000));
  }
}

TEST_P(ByteLevelBpe, QuotationsWithoutSpecialTokensChangeNothing) {
  const Tokens whole = tokenizer_->encode(text_);
  const std::vector<TextRange> all{{0, text_.size()}};
  for (const auto& quoted : {std::vector<TextRange>(), all})
    EXPECT_TRUE(tokenizer_->encode_quoting(text_, quoted, std::nullopt) == whole);
}

TEST(ByteLevelBpeTokens, QuotedSpecialTokensAreText) {
  const auto qwen = test::reference_tokenizer("qwen");
  const std::int32_t end = qwen->added_token("<|im_end|>").value();
  const std::string text = "<|im_end|>e\xCC\x81<|im_end|>";
  const auto ends = [&](std::vector<TextRange> quoted) {
    return std::ranges::count(qwen->encode_quoting(text, quoted, std::nullopt), end);
  };
  EXPECT_EQ(ends({}), 2);
  EXPECT_EQ(ends({{10, 13}}), 2) << "beside both";
  EXPECT_EQ(ends({{0, 1}}), 1);
  EXPECT_EQ(ends({{9, 10}}), 1);
  EXPECT_EQ(ends({{13, 14}}), 1);
  EXPECT_EQ(ends({{0, 1}, {22, 23}}), 0);
  EXPECT_EQ(qwen->added_token("<|im_end|"), std::nullopt);
  EXPECT_EQ(qwen->added_token("the"), std::nullopt) << "no added token";
}

TEST(ByteLevelBpeTokens, KeepAnyBytes) {
  // The other three compose characters, or add a space.
  for (const char* name : {"gpt2", "llama3"}) {
    const auto tokenizer = test::reference_tokenizer(name);
    std::string bytes;
    for (int i = 0; i < 512; ++i) bytes.push_back(static_cast<char>((i * 37 + i / 256) % 256));
    bytes += "caf\xC3\xA9 \xE4\xBD";
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(bytes)), bytes);
    const std::string text = read_text(test::tokenizer_reference() / "text.txt");
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST(ByteLevelBpeTokens, SpecialOnesDecodeToNothingOthersToTheirText) {
  const auto qwen = test::reference_tokenizer("qwen");
  const Tokens tokens = qwen->encode("a<|im_end|><think>b");
  EXPECT_EQ(tokens.size(), 4U);
  EXPECT_EQ(qwen->decode(tokens), "a<think>b");
  EXPECT_THAT([&] { (void)qwen->decode(std::array{-1}); },
              test::fails_with({"token -1", "tokenizer.json"}));
}

TEST(ByteLevelBpeTokens, LongPiecesTakeNoQuadraticTime) {
  // A megabyte of one letter is one piece: quadratic merging would take hours.
  const auto gpt2 = test::reference_tokenizer("gpt2");
  const std::string text(1'000'000, 'a');
  EXPECT_EQ(gpt2->decode(gpt2->encode(text)), text);
}

class TokenizerFileTest : public testing::Test {
 protected:
  TokenizerFileTest() {
    std::filesystem::copy_file(test::tokenizer_reference() / "qwen.json",
                               scratch_ / "tokenizer.json");
  }
  void configure(const std::string& text) const {
    write_durably(scratch_ / "tokenizer_config.json", text);
  }
  test::ScratchDirectory scratch_;
};

TEST_F(TokenizerFileTest, FindsTheEndOfText) {
  const auto id_of = [&](const std::string& token) {
    return test::reference_tokenizer("qwen")->encode(token).front();
  };
  const auto end = [&](const std::string& wanted) {
    return read_tokenizer_file(scratch_.path(), wanted).end_of_text;
  };
  EXPECT_EQ(end(""), id_of("<|endoftext|>"));
  EXPECT_EQ(end("<|im_start|>"), id_of("<|im_start|>"));
  configure(R"({"eos_token": "<|im_end|>"})");
  EXPECT_EQ(end(""), id_of("<|im_end|>"));
  EXPECT_EQ(end("<|im_start|>"), id_of("<|im_start|>"));
  configure(R"({"eos_token": {"content": "<|im_start|>"}})");
  EXPECT_EQ(end(""), id_of("<|im_start|>"));
  configure(R"({"eos_token": null})");
  EXPECT_EQ(end(""), id_of("<|endoftext|>"));
}

TEST_F(TokenizerFileTest, RefusesAnEndThatItCannotFind) {
  const auto read = [&](const std::string& wanted) {
    return [this, wanted] { (void)read_tokenizer_file(scratch_ / "tokenizer.json", wanted); };
  };
  EXPECT_THAT(read("<none>"), test::fails_with({"has no token '<none>'", "--end-of-text"}));
  configure(R"({"eos_token": "<other>"})");
  EXPECT_THAT(read(""), test::fails_with({"'<other>'", "tokenizer_config.json", "--end-of-text"}));
  const auto read_without_option = [&] {
    (void)read_tokenizer_file(scratch_ / "tokenizer.json", "", EndOption::kNone);
  };
  EXPECT_THAT(read_without_option, test::fails_with({"'<other>'", "as 'eos_token' in"}));
  EXPECT_THAT(read_without_option, testing::Not(test::fails_with({"--end-of-text"})));
  configure(R"({"eos_token": 3})");
  EXPECT_THAT(read(""), test::fails_with({"tokenizer_config.json", "'eos_token'"}));
}

}  // namespace
}  // namespace dos::data::byte_level_bpe_test

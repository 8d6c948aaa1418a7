// SPDX-License-Identifier: Apache-2.0
#include "data/piece_tokens.hpp"

#include <algorithm>

#include "data/files.hpp"
#include "data/sentencepiece.hpp"
#include "data/tokenizer_reference.hpp"
#include "scratch_directory.hpp"

namespace dos::data::piece_tokens_test {
namespace {

using nlohmann::json;
using Tokens = std::vector<std::int32_t>;

std::filesystem::path folder() {
  return test::tokenizer_reference() / "llama";
}

/// A copy of the reference's folder, with a configuration of its own.
class PieceFolder : public testing::Test {
 protected:
  PieceFolder() {
    for (const char* name : {"tokenizer.model", "tokenizer_config.json"})
      std::filesystem::copy_file(folder() / name, scratch_ / name);
  }
  [[nodiscard]] json config() const {
    return parse_json(read_text(folder() / "tokenizer_config.json"), "config", "restore it");
  }
  void write(const char* name, const json& document) const {
    write_durably(scratch_ / name, document.dump());
  }
  [[nodiscard]] PieceTokens tokens() const {
    const auto path = scratch_ / "tokenizer.model";
    return read_piece_tokens(read_text(path), path);
  }
  [[nodiscard]] std::unique_ptr<Tokenizer> tokenizer() const {
    return open_sentencepiece_tokenizer(scratch_ / "tokenizer.model");
  }
  test::ScratchDirectory scratch_;
};

/// Of the older kind, which puts a space behind added tokens, too, and of the newer.
class LlamaReference : public PieceFolder, public testing::WithParamInterface<const char*> {
 protected:
  LlamaReference() {
    json changed = config();
    changed["legacy"] = std::string(GetParam()) == "legacy";
    write("tokenizer_config.json", changed);
    tokenizer_ = tokenizer();
  }
  json expected_ = parse_json(read_text(folder() / "expected.json"), "expected.json",
                              "write it again")[GetParam()];
  std::string text_ = read_text(test::tokenizer_reference() / "text.txt");
  std::unique_ptr<Tokenizer> tokenizer_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, LlamaReference, testing::Values("legacy", "new"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(LlamaReference, TokensOfTheTextAreTheLibrarys) {
  const Tokens tokens = tokenizer_->encode(text_);
  EXPECT_EQ(std::ssize(tokens), expected_["text"]["tokens"].get<Index>());
  EXPECT_EQ(test::fnv_of(tokens), expected_["text"]["fnv"].get<std::string>());
}

TEST_P(LlamaReference, TokensOfLinesAreTheLibrarys) {
  ASSERT_GE(expected_["lines"].size(), 14U);
  for (const json& line : expected_["lines"])
    EXPECT_EQ(tokenizer_->encode(line["text"].get<std::string>()), line["tokens"].get<Tokens>())
        << line["text"];
}

TEST_P(LlamaReference, TokensOfRandomStringsAreTheLibrarys) {
  const auto expected = expected_["random"].get<std::string>();
  std::size_t place = 0;
  Index compared = 0;
  for (const json& row : test::random_rows()) {
    const std::string digits = expected.substr(4 * place++, 4);
    // The library's own two tokenizers differ.
    if (digits == "----") continue;
    const Tokens tokens = tokenizer_->encode(row[0].get<std::string>());
    ASSERT_EQ(test::fnv_of(tokens).substr(0, 4), digits)
        << row[0] << " " << fmt::format("{}", tokens);
    ++compared;
  }
  EXPECT_EQ(4 * place, expected.size());
  EXPECT_GE(compared, std::string(GetParam()) == "legacy" ? 2990 : 2600);
}

TEST_P(LlamaReference, ATextBeginsAsTheLibrarys) {
  Tokens tokens(tokenizer_->begin_of_text().begin(), tokenizer_->begin_of_text().end());
  const Tokens of_text = tokenizer_->encode("a b");
  tokens.insert(tokens.end(), of_text.begin(), of_text.end());
  EXPECT_EQ(tokens, expected_["with_special_tokens"].get<Tokens>());
  EXPECT_EQ(tokenizer_->decode(tokens), "a b");
}

TEST_P(LlamaReference, PartsInOrderAreTheWhole) {
  std::string text = text_ + "<|im_end|>one two\nthree";
  const Tokens whole = tokenizer_->encode(text);
  for (const std::size_t limit : {97U, 4096U, 65'536U}) {
    Tokens tokens;
    const auto parts = tokenizer_->parts(text, limit);
    for (const TextPart& part : parts) EXPECT_EQ(tokenizer_->encode_part(part, 0, tokens), 0U);
    EXPECT_TRUE(tokens == whole) << limit;
    EXPECT_GT(parts.size(), text.size() / (limit + 5000));
  }
}

TEST_P(LlamaReference, DecodesToWhatItEncoded) {
  for (const std::string text :
       {"", " ", "a b", "  two  spaces\n", "a<think>b", "a<think> b", "na\xC3\xAFvely!"}) {
    Tokens tokens(tokenizer_->begin_of_text().begin(), tokenizer_->begin_of_text().end());
    const Tokens of_text = tokenizer_->encode(text);
    tokens.insert(tokens.end(), of_text.begin(), of_text.end());
    EXPECT_EQ(tokenizer_->decode(tokens), text);
  }
  EXPECT_EQ(tokenizer_->decode(tokenizer_->encode("a<|im_end|>")), "a") << "special";
}

/// Beside a tokenizer.json that says by Metaspace where a space is put; the configuration names no
/// added tokens, as those that `transformers` 5 writes.
class SpacesReference : public PieceFolder, public testing::WithParamInterface<const char*> {
 protected:
  SpacesReference() {
    const json all =
        parse_json(read_text(folder() / "spaces.json"), "spaces.json", "write it again");
    expected_ = all[GetParam()];
    const bool is_apart = std::string(GetParam()) == "apart";
    write("tokenizer_config.json", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    write("tokenizer.json", {{"added_tokens", all["added_tokens"]},
                             {"normalizer", nullptr},
                             {"pre_tokenizer",
                              {{"type", "Metaspace"},
                               {"prepend_scheme", is_apart ? "first" : GetParam()},
                               {"split", is_apart}}}});
    tokenizer_ = tokenizer();
  }
  json expected_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

INSTANTIATE_TEST_SUITE_P(Schemes, SpacesReference,
                         testing::Values("always", "first", "never", "apart"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(SpacesReference, TokensOfLinesAreTheLibrarys) {
  ASSERT_GE(expected_["lines"].size(), 18U);
  for (const json& line : expected_["lines"])
    EXPECT_EQ(tokenizer_->encode(line["text"].get<std::string>()), line["tokens"].get<Tokens>())
        << line["text"];
}

TEST_P(SpacesReference, TokensOfRandomStringsAreTheLibrarys) {
  const auto expected = expected_["random"].get<std::string>();
  std::size_t place = 0;
  for (const json& row : test::random_rows()) {
    const Tokens tokens = tokenizer_->encode(row[0].get<std::string>());
    ASSERT_EQ(test::fnv_of(tokens).substr(0, 4), expected.substr(4 * place++, 4)) << row[0];
  }
  EXPECT_EQ(4 * place, expected.size());
}

TEST_P(SpacesReference, PartsInOrderAreTheWhole) {
  const std::string text = " " + read_text(test::tokenizer_reference() / "text.txt");
  const Tokens whole = tokenizer_->encode(text);
  for (const std::size_t limit : {97U, 65'536U}) {
    Tokens tokens;
    for (const TextPart& part : tokenizer_->parts(text, limit))
      EXPECT_EQ(tokenizer_->encode_part(part, 0, tokens), 0U);
    EXPECT_TRUE(tokens == whole) << limit;
  }
}

TEST_P(SpacesReference, IsTheSameReadAgain) {
  const json document = parse_json(to_json(tokens()).dump(), "pieces", "restore it");
  EXPECT_EQ(parse_piece_tokens(JsonField(document, "pieces", "restore it")), tokens());
  EXPECT_EQ(tokenizer_->decode(tokenizer_->encode("the ship")), "the ship");
}

TEST_F(PieceFolder, FindsPiecesThatTheConfigurationNames) {
  json changed = config();
  changed.erase("added_tokens_decoder");
  write("tokenizer_config.json", changed);
  EXPECT_EQ(std::ranges::count(tokenizer()->encode("the </s> ship<s>"), 2), 1);
  EXPECT_EQ(std::ranges::count(tokenizer()->encode("the </s> ship<s>"), 1), 1);
  EXPECT_EQ(tokenizer()->added_token("<unk>"), 0);
}

TEST_F(PieceFolder, BeginsTextsAsTheTokenizerJsonBesideItDoes) {
  json changed = config();
  changed.erase("add_bos_token");
  const auto begin = [&](const json& single) {
    write("tokenizer_config.json", changed);
    write("tokenizer.json",
          {{"post_processor", {{"type", "TemplateProcessing"}, {"single", single}}}});
    return tokens().begin_of_text;
  };
  const json sequence = {{"Sequence", {{"id", "A"}}}};
  const json first = {{"SpecialToken", {{"id", "<s>"}}}};
  EXPECT_EQ(begin({first, sequence}), 1);
  EXPECT_EQ(begin(json::array({sequence})), std::nullopt);
  changed["add_bos_token"] = true;
  EXPECT_EQ(begin(json::array({sequence})), 1) << "it is said";
}

TEST_F(PieceFolder, SaysHowTextsBeginAndEnd) {
  EXPECT_EQ(tokens().begin_of_text, 1);
  EXPECT_EQ(tokens().end_of_text, std::nullopt) << "the model's own";
  EXPECT_EQ(tokenizer()->end_of_text(), 2);
  json changed = config();
  changed["add_bos_token"] = false;
  changed["eos_token"] = {{"content", "<|im_end|>"}};
  write("tokenizer_config.json", changed);
  EXPECT_EQ(tokens().begin_of_text, std::nullopt);
  EXPECT_EQ(tokenizer()->end_of_text(), 1401);
  changed = config();
  changed["bos_token"] = nullptr;
  write("tokenizer_config.json", changed);
  EXPECT_TRUE(tokenizer()->begin_of_text().empty());
  changed["bos_token"] = "<|im_start|>";
  write("tokenizer_config.json", changed);
  EXPECT_EQ(tokens().begin_of_text, 1400);
}

TEST_F(PieceFolder, AModelByItselfBeginsTextsAndHasItsOwnTokensAlone) {
  std::filesystem::remove(scratch_ / "tokenizer_config.json");
  EXPECT_EQ(tokens(), (PieceTokens{.count = 1400, .begin_of_text = 1}));
  EXPECT_EQ(std::ranges::count(tokenizer()->encode("a</s>"), 2), 0);
}

TEST_F(PieceFolder, TakesItsSpacesFromTheTokenizerJsonBesideIt) {
  const auto space_once = [&](const json& document, bool legacy) {
    json changed = config();
    changed["legacy"] = legacy;
    write("tokenizer_config.json", changed);
    write("tokenizer.json", document);
    return tokens().space_once;
  };
  const json before_each = {
      {"normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}}, {{"type", "Replace"}}}}}},
      {"pre_tokenizer", nullptr}};
  EXPECT_FALSE(space_once(before_each, false));
  EXPECT_FALSE(space_once({{"normalizer", {{"type", "Prepend"}}}}, false));
  const json before_first = {
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "first"}}}};
  EXPECT_TRUE(space_once(before_first, true));
  for (const json& other : {json::object(), json{{"normalizer", 3}, {"pre_tokenizer", "a"}}})
    for (const bool legacy : {false, true}) EXPECT_EQ(space_once(other, legacy), !legacy);
}

TEST_F(PieceFolder, TakesTokensOfOlderFolders) {
  json changed = config();
  changed.erase("added_tokens_decoder");
  changed["pad_token"] = "<pad>";
  write("tokenizer_config.json", changed);
  write("added_tokens.json", {{"<pad>", 1400}, {"<word>", 1401}});
  const auto found = tokenizer();
  EXPECT_EQ(found->vocabulary(), 1402);
  EXPECT_EQ(found->added_token("<pad>"), 1400);
  EXPECT_EQ(found->decode(found->encode("<pad><word>")), "<word>") << "the first is special";
}

TEST_F(PieceFolder, IsTheSameReadAgain) {
  json changed = config();
  changed["legacy"] = false;
  changed["eos_token"] = "<|im_end|>";
  write("tokenizer_config.json", changed);
  const json document = parse_json(to_json(tokens()).dump(), "pieces", "restore it");
  EXPECT_EQ(parse_piece_tokens(JsonField(document, "pieces", "restore it")), tokens());
}

TEST_F(PieceFolder, RefusesTokensThatItCannotFind) {
  const auto read = [&](const char* key, const json& value) {
    json changed = config();
    changed[key] = value;
    write("tokenizer_config.json", changed);
    return [this] { (void)tokens(); };
  };
  EXPECT_THAT(read("eos_token", "<none>"),
              test::fails_with({"tokenizer_config.json", "'eos_token' is '<none>'", "copy"}));
  EXPECT_THAT(read("add_bos_token", 3), test::fails_with({"'add_bos_token'", "true or false"}));
  EXPECT_THAT(read("added_tokens_decoder", {{"-1", {{"content", "a"}}}}),
              test::fails_with({"'added_tokens_decoder'", "'-1'"}));
  EXPECT_THAT(read("added_tokens_decoder", json{{"7", {{"content", ""}}}}),
              test::fails_with({"'added_tokens_decoder.7.content' is empty"}));
  EXPECT_THAT(read("added_tokens_decoder", {{"7", {{"content", "a"}}}, {"8", {{"content", "a"}}}}),
              test::fails_with({"'added_tokens_decoder'", "another token, too"}));
  write_durably(scratch_ / "tokenizer_config.json", "{");
  EXPECT_THAT([this] { (void)tokens(); }, test::fails_with({"tokenizer_config.json"}));
}

TEST_F(PieceFolder, BelongsToItsModel) {
  const std::string model = read_text(scratch_ / "tokenizer.model");
  EXPECT_THAT(
      [&] { (void)make_sentencepiece_tokenizer(model, "dir/t.model", PieceTokens{.count = 7}); },
      test::fails_with({"dir/t.model: the model has 1400 pieces, 7 were expected"}));
  EXPECT_THAT(
      [&] {
        (void)make_sentencepiece_tokenizer(model, "t.model",
                                           PieceTokens{.count = 1400, .begin_of_text = 1400});
      },
      test::fails_with({"token 1400"}));
}

}  // namespace
}  // namespace dos::data::piece_tokens_test

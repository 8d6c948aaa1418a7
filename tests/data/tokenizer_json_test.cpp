// SPDX-License-Identifier: Apache-2.0
#include "data/bpe/tokenizer_json.hpp"

#include "data/bpe/byte_characters.hpp"
#include "data/files.hpp"
#include "data/tokenizer_reference.hpp"
#include "json_mutations.hpp"

namespace dos::data::tokenizer_json_test {
namespace {

using nlohmann::json;

json reference(const std::string& name) {
  return parse_json(read_text(test::tokenizer_reference() / (name + ".json")), name, "");
}

/// Makes a tokenizer of a document.
std::unique_ptr<Tokenizer> tokenizer_of(const json& document, std::int32_t end = 256) {
  return make_byte_level_bpe(document.dump(), end, "x/tokenizer.json");
}

TEST(ByteCharacters, AreABijection) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(bpe::bytes_of_token(bpe::token_of_bytes(bytes)), bytes);
  EXPECT_EQ(bpe::token_of_bytes(" a\n\xFF"),
            "\xC4\xA0"
            "a\xC4\x8A\xC3\xBF");
  for (const char* foreign : {" ", "a b", "\xE4\xBD\xA0", "\xC5\x84", "\xC2\xAD", "\xFF"})
    EXPECT_EQ(bpe::bytes_of_token(foreign), std::nullopt) << foreign;
}

TEST(TokenizerJson, OlderAndNewerFilesSayTheSame) {
  json document = reference("qwen");
  const auto expected = tokenizer_of(document)->encode("Das Schiff verlie\xC3\x9F den Hafen");
  for (json& merge : document["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  document["model"].erase("type");
  document["model"].erase("ignore_merges");
  document.erase("post_processor");
  EXPECT_EQ(tokenizer_of(document)->encode("Das Schiff verlie\xC3\x9F den Hafen"), expected);
}

TEST(TokenizerJson, WholePiecesComeFirstWithIgnoreMerges) {
  json document = reference("llama3");
  const std::string piece = " capabilities";
  const auto id = static_cast<std::int32_t>(document["model"]["vocab"].size() + 4);
  ASSERT_FALSE(document["model"]["vocab"].contains(bpe::token_of_bytes(piece)));
  // A token that no merge makes, behind the four added ones.
  for (json& token : document["added_tokens"])
    document["model"]["vocab"][token["content"].get<std::string>()] = token["id"];
  document["model"]["vocab"][bpe::token_of_bytes(piece)] = id;
  EXPECT_EQ(tokenizer_of(document)->encode(piece), std::vector{id});
  document["model"]["ignore_merges"] = false;
  EXPECT_GT(tokenizer_of(document)->encode(piece).size(), 1U);
}

TEST(TokenizerJson, NumbersTogetherAreCutAsTheExpressionDoes) {
  // Its merges have numbers of several digits.
  json document = reference("gpt2");
  document["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Digits"}, {"individual_digits", true}}, document["pre_tokenizer"]}}};
  json& digits = document["pre_tokenizer"]["pretokenizers"][0];
  const std::string text = "x12 34\xC2\xBD\xE2\x85\xA7y 5";
  const auto apart = tokenizer_of(document)->encode(text);
  digits["individual_digits"] = false;
  const auto together = tokenizer_of(document)->encode(text);
  EXPECT_NE(together, apart);
  digits = {{"type", "Split"}, {"pattern", {{"Regex", "\\p{N}+"}}}, {"behavior", "Isolated"}};
  EXPECT_EQ(tokenizer_of(document)->encode(text), together);
}

TEST(TokenizerJson, RefusesByName) {
  struct Case {
    const char* place;
    json value;
    std::vector<std::string> complaint;
  };
  const json split = reference("qwen")["pre_tokenizer"]["pretokenizers"][0];
  const Case cases[] = {
      {"/model/type", "WordPiece", {"'model.type' is 'WordPiece'", "known: BPE"}},
      {"/model/type", "Unigram", {"'model.type' is 'Unigram'"}},
      {"/model/type", "WordLevel", {"'model.type' is 'WordLevel'"}},
      {"/model/dropout", 0.1, {"'model.dropout' is set"}},
      {"/model/end_of_word_suffix", "</w>", {"'model.end_of_word_suffix' is set"}},
      {"/model/continuing_subword_prefix", "##", {"'model.continuing_subword_prefix' is set"}},
      {"/model/vocab", json::object(), {"'model.vocab' is empty"}},
      {"/model/vocab/a", -1, {"gives 'a' the id -1"}},
      {"/model/vocab/a", 1e9, {"gives 'a' the id 1000000000.0"}},
      {"/model/vocab/a", 4'000'000'000, {"gives 'a' the id 4000000000"}},
      {"/model/vocab/a", 1, {"gives the id 1 twice"}},
      {"/model/merges/0", "a", {"'model.merges' has \"a\" at place 1"}},
      {"/model/merges/0", "a b c", {"at place 1"}},
      {"/model/merges/0", json::array({"a"}), {"at place 1"}},
      {"/model/merges/3", json::array({"a", "\xC4\xA1"}), {"merge 4 needs the token 'a\xC4\xA1'"}},
      {"/model/merges", "no", {"'model.merges' must be an array"}},
      {"/normalizer/type", "NFKC", {"'normalizer.type' is 'NFKC'", "known: NFC"}},
      {"/normalizer/type", "Lowercase", {"'normalizer.type' is 'Lowercase'"}},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "Strip"}}}}},
       {"'normalizer.normalizers[0].type' is 'Strip'"}},
      {"/pre_tokenizer", nullptr, {"'pre_tokenizer'"}},
      {"/pre_tokenizer/pretokenizers/0",
       {{"type", "Metaspace"}},
       {"is 'Metaspace'", "known: Split"}},
      {"/pre_tokenizer/pretokenizers/0/behavior", "MergedWithNext", {"is 'MergedWithNext'"}},
      {"/pre_tokenizer/pretokenizers/0/behavior", "Removed", {"is 'Removed' without 'invert'"}},
      {"/pre_tokenizer/pretokenizers/0/pattern", {{"Regex", "\\w+"}}, {"the pattern '\\\\w+'"}},
      {"/pre_tokenizer/pretokenizers/1", split, {"'pre_tokenizer' has no ByteLevel at its end"}},
      {"/pre_tokenizer/pretokenizers/2", split, {"follows ByteLevel"}},
      {"/pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}},
       {"'pre_tokenizer' cuts the text nowhere"}},
      {"/post_processor", {{"type", "BertProcessing"}}, {"is 'BertProcessing'"}},
      {"/decoder", {{"type", "Metaspace"}}, {"'decoder.type' is 'Metaspace'"}},
      {"/decoder", nullptr, {"'decoder'"}},
      {"/added_tokens/0/id",
       9999,
       {"'added_tokens[0].id' is 9999, but '<|endoftext|>' has the id"}},
      {"/added_tokens/0/content", "", {"'added_tokens[0].content' is empty"}},
      {"/added_tokens/1/content", "<|endoftext|>", {"added_tokens[1]"}},
  };
  for (const Case& c : cases) {
    json document = reference("qwen");
    document[json::json_pointer(c.place)] = c.value;
    std::vector<std::string> complaint = c.complaint;
    complaint.emplace_back("x/tokenizer.json: ");
    EXPECT_THAT([&] { (void)tokenizer_of(document); }, test::fails_with(complaint)) << c.place;
  }
}

TEST(TokenizerJson, StandsDamage) {
  const std::string good = read_text(test::tokenizer_reference() / "prefix.json");
  test::expect_stands_damage(good, 300, [](const std::string& text) {
    const auto tokenizer = make_byte_level_bpe(text, 0, "x/tokenizer.json");
    (void)tokenizer->decode(tokenizer->encode("Das Schiff </s> 12"));
  });
}

TEST(TokenizerJson, RefusesAByteWithoutAToken) {
  json document = reference("prefix");
  json& vocabulary = document["model"]["vocab"];
  const auto id = vocabulary["z"];
  vocabulary.erase("z");
  vocabulary["\xE4\xBD\xA0"] = id;
  EXPECT_THAT([&] { (void)tokenizer_of(document); },
              test::fails_with({"x/tokenizer.json", "no token for the byte 122"}));
}

TEST(TokenizerJson, RefusesAnEndThatIsNone) {
  const json document = reference("llama3");
  EXPECT_THAT([&] { (void)tokenizer_of(document, 4'000'000); },
              test::fails_with({"end-of-text token 4000000", "--end-of-text"}));
  json with_end = document;
  json& processor = with_end["post_processor"]["processors"][1];
  processor["single"].push_back(processor["single"][0]);
  const std::int32_t last = processor["special_tokens"]["<|begin_of_text|>"]["ids"][0];
  EXPECT_EQ(tokenizer_of(with_end, last)->end_of_text(), last);
  EXPECT_THAT([&] { (void)tokenizer_of(with_end, 5); },
              test::fails_with({"'post_processor' puts token", "--end-of-text"}));
}

}  // namespace
}  // namespace dos::data::tokenizer_json_test

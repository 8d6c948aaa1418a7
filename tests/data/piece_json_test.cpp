// SPDX-License-Identifier: Apache-2.0
#include "data/piece_json.hpp"

#include <gmock/gmock.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <set>
#include <sstream>
#include <unordered_map>

#include "base/file.hpp"
#include "data/corpus.hpp"
#include "data/sentencepiece.hpp"
#include "data/tokenizer_reference.hpp"
#include "scratch_directory.hpp"

namespace dos::data::piece_json_test {
namespace {

using nlohmann::json;

std::string trained(const std::string& algorithm) {
  const std::string text = test::corpus();
  const std::string_view view = text;
  return train_sentencepiece(std::span(&view, 1), {.vocabulary = 330, .algorithm = algorithm});
}

/// As the library trains one by itself: it normalizes, squeezes spaces and adds one before a text.
std::string usual_model(const std::unordered_map<std::string, std::string>& changed = {}) {
  const test::ScratchDirectory scratch;
  write_durably(scratch / "in.txt", test::corpus());
  std::unordered_map<std::string, std::string> options{{"input", (scratch / "in.txt").string()},
                                                       {"model_type", "unigram"},
                                                       {"vocab_size", "200"},
                                                       {"bos_id", "1"},
                                                       {"eos_id", "2"},
                                                       {"minloglevel", "3"}};
  for (const auto& [name, value] : changed) options[name] = value;
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, nullptr, &model);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return model;
}

std::vector<std::string> types(const json& steps) {
  std::vector<std::string> names;
  for (const json& step : steps) names.push_back(step["type"]);
  return names;
}

TEST(PieceJson, HasPiecesAndProbabilitiesOfTheModel) {
  const std::string model = trained("unigram");
  const auto document = piece_tokenizer_json(model, std::nullopt);
  ASSERT_TRUE(document);
  sentencepiece::SentencePieceProcessor processor;
  ASSERT_TRUE(processor.LoadFromSerializedProto(model).ok());
  const json& written = (*document)["model"];
  EXPECT_EQ(written["type"], "Unigram");
  EXPECT_EQ(written["byte_fallback"], true);
  EXPECT_EQ(written["unk_id"], 0);
  ASSERT_EQ(written["vocab"].size(), 330U);
  for (int piece = 0; piece < 330; ++piece) {
    const json& entry = written["vocab"][static_cast<std::size_t>(piece)];
    EXPECT_EQ(entry[0], processor.IdToPiece(piece));
    EXPECT_EQ(entry[1].get<float>(), processor.GetScore(piece));
  }
  EXPECT_EQ(types((*document)["normalizer"]["normalizers"]), (std::vector<std::string>{"Replace"}))
      << "it changes spaces into marks, and nothing else";
  EXPECT_EQ(types((*document)["pre_tokenizer"]["pretokenizers"]),
            (std::vector<std::string>{"Split"}));
  EXPECT_EQ(piece_json_difference(model), "");
  const json config = piece_json_config(model, std::nullopt);
  EXPECT_EQ(config["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(config["eos_token"], "<|endoftext|>");
  EXPECT_EQ(config["bos_token"], nullptr);
}

TEST(PieceJson, ModelsOfMergesThatKeepTextNeedNone) {
  EXPECT_EQ(piece_tokenizer_json(trained("bpe"), std::nullopt), std::nullopt);
}

TEST(PieceJson, OfMergesHasAllPairsThatMakeAPiece) {
  const std::string model = trained("bpe");
  const auto document = piece_tokenizer_json(model, PieceTokens{.space_spared = true});
  ASSERT_TRUE(document);
  EXPECT_EQ((*document)["pre_tokenizer"], nullptr) << "the model adds no space";
  sentencepiece::SentencePieceProcessor processor;
  ASSERT_TRUE(processor.LoadFromSerializedProto(model).ok());
  const json& written = (*document)["model"];
  EXPECT_EQ(written["type"], "BPE");
  EXPECT_EQ(written["vocab"].size(), 330U);
  std::set<std::string> made;
  float last = 0;
  for (const json& pair : written["merges"]) {
    const std::string whole = pair[0].get<std::string>() + pair[1].get<std::string>();
    const float score = processor.GetScore(processor.PieceToId(whole));
    EXPECT_EQ(written["vocab"][whole], processor.PieceToId(whole));
    EXPECT_LE(score, last);
    last = score;
    made.insert(whole);
  }
  EXPECT_GT(made.size(), 20U);
}

TEST(PieceJson, NormalizesAsTheModelDoes) {
  const std::string model = usual_model();
  EXPECT_THAT(piece_json_difference(model), testing::HasSubstr("normalizes text"));
  const PieceTokens tokens{.begin_of_text = 1, .space_once = true};
  const auto document = piece_tokenizer_json(model, tokens);
  ASSERT_TRUE(document);
  const json& steps = (*document)["normalizer"]["normalizers"];
  EXPECT_EQ(types(steps), (std::vector<std::string>{
                              "Replace", "NFC", "Replace", "Replace", "NFC", "Replace", "Replace",
                              "NFC", "Replace", "Precompiled", "Replace", "Replace", "Replace"}))
      << "characters are put together, mapped, and spaces squeezed";
  const std::string characters = steps[9]["precompiled_charsmap"];
  EXPECT_EQ(characters.size() % 4, 0U);
  EXPECT_EQ(characters.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                         "0123456789+/="),
            std::string::npos);
  EXPECT_GT(characters.size(), 100'000U) << "nmt_nfkc";
  EXPECT_EQ((*document)["pre_tokenizer"]["pretokenizers"][0]["prepend_scheme"], "first");
  EXPECT_EQ((*document)["post_processor"]["single"][0]["SpecialToken"]["id"], "<s>");
  EXPECT_EQ((*document)["model"]["byte_fallback"], false);
}

TEST(PieceJson, SaysWhatTheLibraryCannotDo) {
  EXPECT_THAT(piece_json_difference(usual_model({{"treat_whitespace_as_suffix", "true"}})),
              testing::HasSubstr("puts spaces behind words"));
  std::unordered_map<std::string, std::string> users{{"user_defined_symbols", "<sep>"},
                                                     {"normalization_rule_name", "identity"}};
  EXPECT_EQ(piece_json_difference(usual_model(users)), "") << "unigram pieces stay whole";
  users["model_type"] = "bpe";
  EXPECT_THAT(piece_json_difference(usual_model(users)), testing::HasSubstr("its user defined"));
}

TEST(PieceJson, IsReadBesideTheModelAsItIsWritten) {
  const test::ScratchDirectory scratch;
  const std::string model = usual_model();
  for (const PieceTokens& tokens :
       {PieceTokens{.count = 200, .begin_of_text = 1, .space_once = true},
        PieceTokens{.count = 200, .begin_of_text = 1},
        PieceTokens{.count = 200, .space_spared = true}}) {
    write_durably(scratch / "tokenizer.model", model);
    write_durably(scratch / "tokenizer.json", piece_tokenizer_json(model, tokens)->dump());
    write_durably(scratch / "tokenizer_config.json", piece_json_config(model, tokens).dump());
    const PieceTokens found = read_piece_tokens(model, scratch / "tokenizer.model");
    EXPECT_EQ(found.begin_of_text, tokens.begin_of_text);
    EXPECT_EQ(found.end_of_text, std::nullopt) << "the model's own";
    EXPECT_EQ(found.space_once, tokens.space_once);
    EXPECT_EQ(found.space_spared, tokens.space_spared);
    EXPECT_EQ(found.added.size(), 2U) << "<s> and </s>";
  }
}

struct Exported {
  std::string folder;
  const char* kind;
};

/// A model of tools/make_exported_reference.py; a space before each text between added tokens, or
/// before the first alone.
class ExportedReference : public testing::TestWithParam<Exported> {
 protected:
  ExportedReference() {
    const auto folder = test::tokenizer_reference() / GetParam().folder;
    model_ = read_text(folder / "tokenizer.model");
    expected_ = parse_json(read_text(folder / "exported.json"), "exported.json",
                           "write it again")[GetParam().kind];
    json config{{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
    const auto own = folder / "tokenizer_config.json";
    if (std::filesystem::exists(own))
      config = parse_json(read_text(own), "tokenizer_config.json", "restore it");
    config["legacy"] = std::string(GetParam().kind) == "legacy";
    write_durably(scratch_ / "tokenizer.model", model_);
    write_durably(scratch_ / "tokenizer_config.json", config.dump());
    tokens_ = read_piece_tokens(model_, scratch_ / "tokenizer.model");
  }

  test::ScratchDirectory scratch_;
  std::string model_;
  PieceTokens tokens_;
  json expected_;
};

INSTANTIATE_TEST_SUITE_P(Models, ExportedReference,
                         testing::Values(Exported{"unigram", "legacy"}, Exported{"unigram", "new"},
                                         Exported{"llama", "legacy"}, Exported{"llama", "new"}),
                         [](const auto& each) {
                           return each.param.folder + "_" + each.param.kind;
                         });

TEST_P(ExportedReference, IsWrittenAsTheLibraryHasReadIt) {
  const auto written = piece_tokenizer_json(model_, tokens_);
  ASSERT_TRUE(written);
  json document = *written;
  for (const char* part : {"vocab", "merges"}) document["model"].erase(part);
  for (json& step : document["normalizer"]["normalizers"]) step.erase("precompiled_charsmap");
  EXPECT_EQ(document, expected_["document"]);
}

TEST_P(ExportedReference, TokensAreTheLibrarys) {
  const auto tokenizer = make_sentencepiece_tokenizer(model_, "tokenizer.model", tokens_);
  ASSERT_GE(expected_["lines"].size(), 50U);
  for (const json& line : expected_["lines"])
    EXPECT_EQ(tokenizer->encode(line["text"].get<std::string>()),
              line["tokens"].get<std::vector<std::int32_t>>())
        << line["text"];
  std::istringstream text(read_text(test::tokenizer_reference() / "text.txt"));
  std::vector<std::int32_t> all;
  for (std::string line; std::getline(text, line);)
    for (const std::int32_t token : tokenizer->encode(line)) all.push_back(token);
  EXPECT_EQ(test::fnv_of(all), expected_["text"].get<std::string>());
}

}  // namespace
}  // namespace dos::data::piece_json_test

// SPDX-License-Identifier: Apache-2.0
// Conversations of models with a SentencePiece tokenizer: tests/reference/chat/README.md.
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>

#include "base/target.hpp"
#include "data/chat/chat_encoder.hpp"
#include "data/chat_reference.hpp"
#include "data/corpus.hpp"
#include "data/files.hpp"
#include "scratch_directory.hpp"

namespace dos::data::piece_chat_test {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Tokens = std::vector<std::int32_t>;
using test::fails_with;

Tokens plain(Tokens elements) {
  for (std::int32_t& element : elements) element = token_of(element);
  return elements;
}

std::string line_of(const ordered_json& messages) {
  return ordered_json{{"messages", messages}}.dump();
}

TEST(PieceChat, TokensOfTheOtherKindOfTokenizerAreThoseOfTransformers) {
  const ordered_json others = test::expected_chats(test::kOfPieces)["others"];
  ASSERT_EQ(others.size(), 3U);
  for (const ordered_json& entry : others) {
    const auto tokenizer = test::chat_tokenizer(entry);
    const ChatTemplate chat = find_chat_template(entry["template"].get<std::string>());
    const ChatEncoder encoder(*tokenizer, chat);
    for (const ordered_json& row : entry["conversations"]) {
      Tokens elements = encoder.encode_line(line_of(row["messages"]));
      if (elements.empty()) continue;
      std::string mask;
      for (const std::int32_t element : elements) mask += is_target(element) ? '1' : '0';
      EXPECT_EQ(plain(elements), row["ids"].get<Tokens>()) << chat.name << row["messages"];
      EXPECT_EQ(mask, row["mask"].get<std::string>()) << chat.name << row["messages"];
    }
    EXPECT_EQ(encoder.encode_prompt("Hi there"), entry["prompt"]["ids"].get<Tokens>());
  }
}

TEST(PieceChat, AModelByItselfHasTheTokensOfItsControlPieces) {
  const ordered_json entry = test::expected_chat("llama-2");
  const auto path = test::tokenizer_reference() / "llama/tokenizer.model";
  const auto tokenizer = make_sentencepiece_tokenizer(read_text(path), path);
  const ChatTemplate chat = find_chat_template("llama-2");
  const ChatEncoder encoder(*tokenizer, chat);
  const ordered_json& rows = entry["conversations"];
  for (std::size_t i = 0; i < 5; ++i)  // others are written with added tokens
    EXPECT_EQ(plain(encoder.encode_line(line_of(rows[i]["messages"]))),
              rows[i]["ids"].get<Tokens>());
  EXPECT_EQ(encoder.end_of_turn(), 2);
}

TEST(PieceChat, WhatAMessageSaysIsNoControlPiece) {
  const json expected = test::expected_chats(test::kOfPieces)["injected"];
  const auto tokenizer = test::chat_tokenizer(test::expected_chat("llama-2"));
  const ChatTemplate chat = find_chat_template("llama-2");
  const ChatEncoder encoder(*tokenizer, chat);
  const ordered_json messages = {{{"role", "user"}, {"content", expected["content"]}},
                                 {{"role", "assistant"}, {"content", expected["content"]}}};
  const Tokens elements = encoder.encode_line(line_of(messages));
  EXPECT_EQ(plain(elements), expected["ids"].get<Tokens>());
  EXPECT_EQ(std::ranges::count_if(elements, [](auto element) { return is_target(element); }),
            expected["counted"].get<Index>());
}

TEST(PieceChat, MessagesOutOfTurnAreRefused) {
  const auto tokenizer = test::chat_tokenizer(test::expected_chat("mistral-v3"));
  const ChatTemplate chat = find_chat_template("mistral-v3");
  const ChatEncoder encoder(*tokenizer, chat);
  const auto encode = [&](std::initializer_list<const char*> roles) {
    ordered_json messages = ordered_json::array();
    for (const char* role : roles) messages.push_back({{"role", role}, {"content", "a"}});
    return [&encoder, line = line_of(messages)] { (void)encoder.encode_line(line); };
  };
  EXPECT_THAT(encode({"assistant"}),
              fails_with({"message 1 has the role 'assistant'", "the user"}));
  EXPECT_THAT(encode({"system", "user", "user"}),
              fails_with({"message 3 has the role 'user'", "one of the assistant", "mend"}));
  EXPECT_THAT(encode({"user", "system"}), fails_with({"message 2 has the role 'system'"}));
  EXPECT_THAT(encode({"user", "tool"}), fails_with({"message 2 has the role 'tool'"}));
  EXPECT_THAT(encode({"system"}), fails_with({"message 1 is the system's", "there is none"}));
}

using Options = std::unordered_map<std::string, std::string>;

/// A model of the corpus, like Llama 2's but for `changes`.
std::string trained(const Options& changes) {
  const test::ScratchDirectory scratch;
  write_durably(scratch / "in.txt", test::corpus());
  Options options = changes;
  options.merge(Options{{"input", (scratch / "in.txt").string()},
                        {"model_type", "bpe"},
                        {"vocab_size", "400"},
                        {"byte_fallback", "true"},
                        {"normalization_rule_name", "identity"},
                        {"remove_extra_whitespaces", "false"},
                        {"minloglevel", "3"}});
  std::string model;
  EXPECT_TRUE(sentencepiece::SentencePieceTrainer::Train(options, nullptr, &model).ok());
  return model;
}

TEST(PieceChat, ModelsThatDoNotFitAreRefused) {
  const ChatTemplate chat = find_chat_template("llama-2");
  const auto encoder_of = [&](const std::string& model) {
    return [&chat, tokenizer = std::shared_ptr(make_sentencepiece_tokenizer(model, "t.model"))] {
      const ChatEncoder encoder(*tokenizer, chat);
    };
  };
  encoder_of(trained({}))();
  EXPECT_THAT(encoder_of(trained({{"normalization_rule_name", "nmt_nfkc"}})),
              fails_with({"changes text", "'llama-2'"}));
  EXPECT_THAT(encoder_of(trained({{"remove_extra_whitespaces", "true"}})),
              fails_with({"changes text"}));
  EXPECT_THAT(encoder_of(trained({{"bos_id", "-1"}})), fails_with({"no special token '<s>'"}));
  ChatTemplate other = chat;
  other.tokens = {"<end>"};
  other.roles[kAssistant].end = "<end>";
  const auto tokenizer = make_sentencepiece_tokenizer(
      trained({{"user_defined_symbols", "<end>"}}), "t.model",
      PieceTokens{.count = 400, .added = {{.text = "<end>", .id = 3, .special = true}}});
  EXPECT_THAT([&] { const ChatEncoder encoder(*tokenizer, other); },
              fails_with({"takes '<end>' for a token wherever it is written", "control piece"}));
}

}  // namespace
}  // namespace dos::data::piece_chat_test

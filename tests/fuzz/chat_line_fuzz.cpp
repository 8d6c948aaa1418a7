// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/target.hpp"
#include "data/bpe/byte_level_bpe.hpp"
#include "data/chat/chat_encoder.hpp"
#include "fuzz/target.hpp"

namespace {

using namespace dos::data;

/// The 256 bytes, a template's tokens, and one that is found in messages, too.
std::unique_ptr<Tokenizer> make_tokenizer() {
  const auto added = [](std::int32_t id, const char* text, bool special) {
    return nlohmann::json{{"id", id},          {"content", text}, {"single_word", false},
                          {"lstrip", false},   {"rstrip", false}, {"normalized", false},
                          {"special", special}};
  };
  nlohmann::json vocabulary = nlohmann::json::object();
  const auto put = [&](unsigned code) {
    std::string text;
    if (code < 0x80) {
      text = static_cast<char>(code);
    } else {
      text = {static_cast<char>(0xC0U | code >> 6U), static_cast<char>(0x80U | (code & 0x3FU))};
    }
    vocabulary[text] = vocabulary.size();
  };
  // Bytes that print stand for themselves, the others for the characters from 256 on.
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool prints = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    put(prints ? byte : next++);
  }
  const nlohmann::json document = {
      {"added_tokens",
       {added(256, "<|im_start|>", true), added(257, "<|im_end|>", true),
        added(258, "<think>", false)}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  return make_byte_level_bpe(document.dump(), 256, "x");
}

/// A turn for each message, one for results of tools that stand side by side, and one for the
/// system's where tools are told and it has none.
std::ptrdiff_t turns_of(const Conversation& conversation) {
  std::ptrdiff_t turns = 0;
  const ChatMessage* before = nullptr;
  for (const ChatMessage& message : conversation.messages) {
    turns += before != nullptr && before->role == "tool" && message.role == "tool" ? 0 : 1;
    before = &message;
  }
  const bool has_system =
      !conversation.messages.empty() && conversation.messages.front().role == kSystem;
  return turns + (conversation.tools.empty() || has_system ? 0 : 1);
}

}  // namespace

/// Any line is refused in one line, or is a conversation in which every turn ends once: what
/// messages, tools and calls say becomes no special token.
void dos::test::fuzz(std::span<const std::byte> bytes) {
  static const auto tokenizer = make_tokenizer();
  static const ChatTemplate chat = find_chat_template("chatml");
  static const ChatEncoder encoder(*tokenizer, chat);
  const std::vector<std::int32_t> elements = encoder.encode_line(text_of(bytes));
  if (elements.empty()) return;
  const std::ptrdiff_t turns = turns_of(parse_conversation(text_of(bytes)));
  std::ptrdiff_t starts = 0;
  std::ptrdiff_t ends = 0;
  for (const std::int32_t element : elements) {
    starts += token_of(element) == tokenizer->added_token("<|im_start|>") ? 1 : 0;
    ends += token_of(element) == encoder.end_of_turn() ? 1 : 0;
  }
  if (starts != turns || ends != turns) broken("as many turns as there are");
  if (std::ranges::none_of(elements, is_target)) broken("an answer counts");
}

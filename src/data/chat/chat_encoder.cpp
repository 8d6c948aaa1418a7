// SPDX-License-Identifier: Apache-2.0
#include "data/chat/chat_encoder.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/target.hpp"

namespace dos::data {

namespace {

/// A SentencePiece model must leave text as it is, and find none of the template's tokens in what
/// messages say.
void expect_pieces_fit(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  // Spaces at its ends and beside each other, and a character that normalizations map.
  constexpr std::string_view kProbe = "a  b\n\xEF\xAC\x81 ";
  expect(tokenizer.decode(tokenizer.encode(kProbe)) == kProbe,
         "the tokenizer changes text (it normalizes, drops spaces, or has no pieces for bytes), so "
         "answers have no place of their own in the chat template '{}'; use another tokenizer",
         chat.name);
  for (const std::string& text : chat.tokens) {
    const std::array quoted{TextRange(0, text.size())};
    expect(
        std::ranges::count(tokenizer.encode_quoting(text, quoted, std::nullopt),
                           *tokenizer.added_token(text)) == 0,
        "the tokenizer's model takes '{}' for a token wherever it is written, so a message could "
        "end its turn in the chat template '{}'; use a model in which it is a control piece",
        one_line(text), chat.name);
  }
}

}  // namespace

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, const ChatTemplate& chat)
    : tokenizer_(tokenizer), chat_(chat) {
  expect(tokenizer.kind() != kBytes,
         "the chat template '{}' needs a tokenizer.json or a SentencePiece model, whose special "
         "tokens it is written with; the tokenizer is '{}'",
         chat.name, tokenizer.kind());
  for (const std::string& token : chat.tokens)
    expect(tokenizer.added_token(token).has_value(),
           "the tokenizer has no special token '{}', with which the chat template '{}' is written; "
           "use the template that belongs to the tokenizer",
           one_line(token), chat.name);
  if (tokenizer.kind() == kSentencePiece)
    expect_pieces_fit(tokenizer, chat);
  else
    expect(tokenizer.encode("a") != tokenizer.encode(" a"),
           "the tokenizer puts a space before text (add_prefix_space), which the chat template "
           "'{}' does not know; use another tokenizer",
           chat.name);
  end_of_turn_ = *tokenizer.added_token(chat.end_of_turn());
}

std::vector<std::int32_t> ChatEncoder::encode(const std::vector<ChatSpan>& spans) const {
  std::vector<std::int32_t> elements;
  std::optional<std::int32_t> before;
  for (const ChatSpan& span : spans)
    for (const std::int32_t token : tokenizer_.encode_quoting(span.text, span.quoted, before)) {
      elements.push_back(span.counts ? token : input_only(token));
      before = token;
    }
  return elements;
}

std::vector<std::int32_t> ChatEncoder::encode_line(std::string_view line) const {
  const std::vector<ChatSpan> spans = lay_out(chat_, parse_conversation(line));
  if (!std::ranges::any_of(spans, &ChatSpan::counts)) return {};
  return encode(spans);
}

std::vector<std::int32_t> ChatEncoder::encode_prompt(std::string_view message) const {
  const ChatMessage question{.role = kUser, .content = std::string(message)};
  std::vector<std::int32_t> tokens = encode(lay_out_prompt(chat_, {.messages = {question}}));
  for (std::int32_t& token : tokens) token = token_of(token);
  return tokens;
}

}  // namespace dos::data

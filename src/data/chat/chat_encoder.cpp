// SPDX-License-Identifier: Apache-2.0
#include "data/chat/chat_encoder.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/target.hpp"

namespace dos::data {

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, const ChatTemplate& chat)
    : tokenizer_(tokenizer), chat_(chat) {
  expect(tokenizer.kind() == kTokenizerJson,
         "the chat template '{}' needs a tokenizer.json, whose added tokens it is written with; "
         "the tokenizer is '{}'",
         chat.name, tokenizer.kind());
  for (const std::string& token : chat.tokens)
    expect(tokenizer.added_token(token).has_value(),
           "the tokenizer has no added token '{}', with which the chat template '{}' is written; "
           "use the template that belongs to the tokenizer",
           one_line(token), chat.name);
  expect(tokenizer.encode("a") != tokenizer.encode(" a"),
         "the tokenizer puts a space before text (add_prefix_space), which the chat template '{}' "
         "does not know; use another tokenizer",
         chat.name);
  end_of_turn_ = *tokenizer.added_token(chat.roles.at(kAssistant).end);
}

std::vector<std::int32_t> ChatEncoder::encode(const std::vector<ChatSpan>& spans) const {
  std::vector<std::int32_t> elements;
  for (const ChatSpan& span : spans)
    for (const std::int32_t token : tokenizer_.encode_quoting(span.text, span.quoted))
      elements.push_back(span.counts ? token : input_only(token));
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

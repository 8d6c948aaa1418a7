// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/chat/chat_layout.hpp"
#include "data/tokenizer.hpp"

namespace dos::data {

/// Conversations to tokens: each span of the text (chat_layout.hpp) by itself, so that no token
/// counts half, and a prompt for an answer has the tokens that stand before one in training. Both
/// members are thread-safe.
class ChatEncoder {
 public:
  /// Both must outlive the object. Throws Error when the tokenizer has none but bytes, lacks one of
  /// the template's tokens, or as a tokenizer.json puts a space before text; and when a
  /// SentencePiece model changes text, or finds the template's tokens in what messages say.
  ChatEncoder(const Tokenizer& tokenizer, const ChatTemplate& chat);

  /// The elements of a batch (base/target.hpp) for a line of JSON; none where no message is the
  /// assistant's. Throws Error as parse_conversation() and lay_out() do.
  [[nodiscard]] std::vector<std::int32_t> encode_line(std::string_view line) const;

  /// The tokens of a message of the user, and of what stands before the answer.
  [[nodiscard]] std::vector<std::int32_t> encode_prompt(std::string_view message) const;

  /// The token that ends an answer.
  [[nodiscard]] std::int32_t end_of_turn() const noexcept { return end_of_turn_; }

 private:
  [[nodiscard]] std::vector<std::int32_t> encode(const std::vector<ChatSpan>& spans) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_;
  std::int32_t end_of_turn_ = 0;
};

}  // namespace dos::data

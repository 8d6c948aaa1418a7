// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_template.hpp"
#include "data/tokenizer.hpp"

namespace dos::data {

struct ChatMessage {
  std::string role;
  std::string content;
};

/// Reads a line of JSON: {"messages": [{"role": "user", "content": "..."}, ...]}, or
/// {"conversations": [{"from": "human", "value": "..."}, ...]}, where human is the user and gpt the
/// assistant. Other members are left out. Throws Error, naming the field and the remedy, for
/// anything else, and for calls of tools.
std::vector<ChatMessage> parse_conversation(std::string_view line);

/// A stretch of a conversation's text that counts in the loss, or one that does not.
struct ChatSpan {
  std::string text;
  std::vector<TextRange> quoted;  ///< what the messages say: no special tokens are looked for there
  bool counts = false;
};

/// The text of a conversation; neighbouring spans differ in whether they count. What an assistant
/// says counts, and the end of its turn. Throws Error for a role that the template has not.
std::vector<ChatSpan> lay_out(const ChatTemplate& chat, const std::vector<ChatMessage>& messages);

/// The same, then the text before an answer, which is to be generated.
std::vector<ChatSpan> lay_out_prompt(const ChatTemplate& chat,
                                     const std::vector<ChatMessage>& messages);

}  // namespace dos::data

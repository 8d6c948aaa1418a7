// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/chat/chat_template.hpp"
#include "data/chat/conversation.hpp"
#include "data/tokenizer.hpp"

namespace dos::data {

/// A stretch of a conversation's text that counts in the loss, or one that does not.
struct ChatSpan {
  std::string text;
  std::vector<TextRange> quoted;  ///< what the messages say: no special tokens are looked for there
  bool counts = false;
};

/// The text of a conversation; neighbouring spans differ in whether they count. What an assistant
/// says and calls counts, and begin and end of its turn. Throws Error for a role that the template
/// has not, or not there, for a system's message without one of the user that it belongs into, and
/// for tools, calls, several of them, or text beside them that it does not write.
std::vector<ChatSpan> lay_out(const ChatTemplate& chat, const Conversation& conversation);

/// The same, then the text before an answer, which is to be generated.
std::vector<ChatSpan> lay_out_prompt(const ChatTemplate& chat, const Conversation& conversation);

}  // namespace dos::data

// SPDX-License-Identifier: Apache-2.0
#include "generate/chat_prompt.hpp"

#include "data/chat/chat_encoder.hpp"

namespace dos::generate {

std::vector<Index> ends_of(const data::Tokenizer& tokenizer, const data::ChatTemplate* chat) {
  std::vector<Index> ends{tokenizer.end_of_text()};
  if (chat != nullptr) ends.push_back(data::ChatEncoder(tokenizer, *chat).end_of_turn());
  return ends;
}

Prompt make_chat_prompt(const data::ChatTemplate& chat, const data::Tokenizer& tokenizer,
                        const std::string& message) {
  const data::ChatEncoder encoder(tokenizer, chat);
  return {.tokens = encoder.encode_prompt(message), .ends = ends_of(tokenizer, &chat)};
}

}  // namespace dos::generate

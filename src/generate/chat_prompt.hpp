// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "data/chat/chat_template.hpp"
#include "data/tokenizer.hpp"

namespace dos::generate {

/// What is to be continued, and the tokens at which that ends.
struct Prompt {
  std::vector<std::int32_t> tokens;
  std::vector<Index> ends;
};

/// The tokens that end a text, and an answer where conversations are written with `chat`.
std::vector<Index> ends_of(const data::Tokenizer& tokenizer, const data::ChatTemplate* chat);

/// A message to a model that was trained on conversations, and what stands before an answer. Throws
/// Error when the tokenizer does not belong to the template.
Prompt make_chat_prompt(const data::ChatTemplate& chat, const data::Tokenizer& tokenizer,
                        const std::string& message);

}  // namespace dos::generate

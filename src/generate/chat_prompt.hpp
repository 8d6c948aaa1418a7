// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer.hpp"

namespace dos::generate {

/// A message to a model that was trained on conversations, and how its answer ends.
struct ChatPrompt {
  std::vector<std::int32_t> tokens;  ///< of the message, and of what stands before an answer
  /// The given one, but with the end of an answer for the end of a text.
  std::unique_ptr<data::Tokenizer> tokenizer;
};

/// With the chat template of a data set's manifest. Throws Error when it has none, or the
/// tokenizer does not belong to it.
ChatPrompt make_chat_prompt(const std::filesystem::path& manifest,
                            std::unique_ptr<data::Tokenizer> tokenizer, const std::string& message);

}  // namespace dos::generate

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/json_field.hpp"

namespace dos::data {

/// The text that stands around a message: before + content + end + after.
struct ChatRole {
  std::string before;
  std::string end;  ///< a part of the turn: of the assistant's it counts in the loss
  std::string after;

  bool operator==(const ChatRole&) const = default;
};

inline constexpr const char* kAssistant = "assistant";
inline constexpr const char* kUser = "user";

/// How a conversation is written as text: data, no program. As JSON:
///   {"name": "chatml", "tokens": ["<|im_start|>", "<|im_end|>"], "start": "", "trim": false,
///    "roles": {"user": {"before": "<|im_start|>user\n", "end": "<|im_end|>", "after": "\n"}, ...}}
/// "start", "trim", "before", "end" and "after" may be left out.
struct ChatTemplate {
  std::string name;
  std::vector<std::string> tokens;  ///< that its texts are written with: added tokens of tokenizers
  std::string start;                ///< before the first message
  bool trims = false;               ///< white space at both ends of a message's content is dropped
  std::map<std::string, ChatRole> roles;  ///< kAssistant's end is one of `tokens`

  bool operator==(const ChatTemplate&) const = default;
};

/// Throws Error, naming the field and the remedy, when a member is missing, unknown or of another
/// type, the assistant is missing, or its turn does not end with a token.
ChatTemplate parse_chat_template(const JsonField& object);
nlohmann::ordered_json to_json(const ChatTemplate& chat);

/// The names of the built-in templates.
std::vector<std::string> chat_template_names();

/// The built-in template of that name, else that of the JSON file `name`. Throws Error when there
/// is neither, and as parse_chat_template() does.
ChatTemplate find_chat_template(const std::string& name);

}  // namespace dos::data

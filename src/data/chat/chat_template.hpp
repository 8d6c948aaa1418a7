// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_field.hpp"

namespace dos::data {

/// The text that stands around a message: before + begin + content + end + after.
struct ChatRole {
  std::string before;
  std::string end;  ///< a part of the turn: of the assistant's it counts in the loss
  std::string after;
  std::string begin{};  ///< likewise
  /// Instead of end, after, before and begin between two messages of the role; empty: nothing
  /// special.
  std::string joint{};
  /// Of the system's message, which has no turn of its own then: the user's message ahead of whose
  /// content it is written, kFirst or kLast of the conversation; empty: it has.
  std::string into{};
  bool trims = false;    ///< as ChatTemplate::trims, of this role
  bool is_json = false;  ///< the content is written as a text of JSON

  bool operator==(const ChatRole&) const = default;
};

/// How definitions of tools are written: before + each of them, as JSON, + after, ahead of what the
/// first message of `role` says, or behind it where that is the system's, which is made up where
/// there is none.
struct ChatTools {
  std::string role;     ///< kSystem or kUser
  std::string system;   ///< what the system's message begins with then
  std::string between;  ///< behind what a system's message says
  std::string before;
  std::string each_before;
  std::string each_after;
  Index indent = 0;  ///< of the JSON; 0: each is one line
  std::string after;

  bool operator==(const ChatTools&) const = default;
};

/// How calls of tools are written in a turn of the assistant: before + name + middle + arguments +
/// after.
struct ChatCalls {
  std::string between;  ///< before a call that text or another call stands before
  std::string before;
  std::string middle;
  std::string after;
  bool several = true;      ///< a turn may have more than one
  bool beside_text = true;  ///< a turn may have a text, too

  bool operator==(const ChatCalls&) const = default;
};

inline constexpr const char* kAssistant = "assistant";
inline constexpr const char* kUser = "user";
inline constexpr const char* kSystem = "system";
inline constexpr const char* kFirst = "first";
inline constexpr const char* kLast = "last";

/// How a conversation is written as text: data, no program. As JSON:
///   {"name": "chatml", "tokens": ["<|im_start|>", "<|im_end|>"], "start": "", "trim": false,
///    "roles": {"user": {"before": "<|im_start|>user\n", "end": "<|im_end|>", "after": "\n"}, ...}}
/// "start", "trim", "before", "end" and "after" may be left out, and so may the following: of a
/// role "begin", "joint", "into", "trim" and "json", and of all "alternate": false, "tools":
/// {"role": "system", "system": "", "between": "", "before": "", "each_before": "", "each_after":
/// "", "indent": 0, "after": ""} and "calls": {"between": "", "before": "", "middle": "", "after":
/// "", "several": true, "beside_text": true}.
struct ChatTemplate {
  std::string name;
  std::vector<std::string> tokens;  ///< that its texts are written with: added tokens of tokenizers
  std::string start;                ///< before the first message
  bool trims = false;               ///< white space at both ends of a message's content is dropped
  std::map<std::string, ChatRole> roles;  ///< kAssistant's end ends with one of `tokens`
  std::optional<ChatTools> tools{};       ///< nullopt: there is no form for them
  std::optional<ChatCalls> calls{};       ///< likewise
  /// Behind the system's message stand the user's and the assistant's in turn, and no others.
  bool alternates = false;

  /// The one of `tokens` with which an answer ends.
  [[nodiscard]] const std::string& end_of_turn() const;

  bool operator==(const ChatTemplate&) const = default;
};

/// Throws Error, naming the field and the remedy, when a member is missing, unknown or of another
/// type, the assistant is missing, or its turn does not end with a token, or tools, or the system's
/// message, are to be written into a role that is not there.
ChatTemplate parse_chat_template(const JsonField& object);
nlohmann::ordered_json to_json(const ChatTemplate& chat);

/// The names of the built-in templates.
std::vector<std::string> chat_template_names();

/// The built-in template of that name, else that of the JSON file `name`. Throws Error when there
/// is neither, and as parse_chat_template() does.
ChatTemplate find_chat_template(const std::string& name);

}  // namespace dos::data

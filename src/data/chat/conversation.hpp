// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace dos::data {

/// An assistant's call of a tool.
struct ToolCall {
  std::string name;
  std::string arguments;  ///< an object, in one line of JSON
};

struct ChatMessage {
  std::string role;
  std::string content{};
  std::vector<ToolCall> calls{};  ///< of the assistant only
};

struct Conversation {
  std::vector<ChatMessage> messages;
  std::vector<nlohmann::ordered_json> tools{};  ///< definitions of what may be called: objects
};

/// Reads a line of JSON: {"messages": [{"role": "user", "content": "..."}, ...]}, or
/// {"conversations": [{"from": "human", "value": "..."}, ...]}, where human is the user and gpt the
/// assistant. A content is a string, or a list of parts {"type": "text", "text": "..."}, which are
/// joined. With "messages" an assistant may have "tool_calls", [{"function": {"name": "...",
/// "arguments": {...}}}, ...], and the line "tools", objects that say what may be called. Arguments
/// are an object, written as Python does, or the text of one, which stays as it is. Other members
/// are left out. Throws Error, naming the field and the remedy, for anything else, and for members
/// that would change what is trained and that no template writes.
Conversation parse_conversation(std::string_view line);

}  // namespace dos::data

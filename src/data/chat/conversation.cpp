// SPDX-License-Identifier: Apache-2.0
#include "data/chat/conversation.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "base/json.hpp"
#include "base/json_field.hpp"
#include "data/chat/chat_template.hpp"
#include "data/chat/python_json.hpp"

namespace dos::data {
namespace {

using nlohmann::ordered_json;

constexpr const char* kLine = "the line";
constexpr const char* kLineRemedy =
    "give lines such as {\"messages\": [{\"role\": \"user\", \"content\": \"...\"}, {\"role\": "
    "\"assistant\", \"content\": \"...\"}]}, or mend the line";

/// How a kind of lines names things.
struct LineNames {
  const char* messages;
  const char* role;
  const char* content;
};
constexpr LineNames kMessages{"messages", "role", "content"};
constexpr LineNames kConversations{"conversations", "from", "value"};
constexpr const char* kCalls = "tool_calls";
constexpr const char* kTools = "tools";

/// Names of roles in "conversations".
constexpr std::array<std::pair<const char*, const char*>, 2> kOtherRoles{
    {{"human", kUser}, {"gpt", kAssistant}}};

/// Members of messages that would change what is trained, and that nobody reads.
constexpr std::array<std::pair<const char*, const char*>, 4> kRefused{
    {{"function_call", "is a call of a tool in an older form: give it as tool_calls"},
     {"reasoning_content", "is a thought, which no template writes: put it into the content"},
     {"thinking", "is a thought, which no template writes: put it into the content"},
     {"weight", "is a weight, which is not read: take out what is not to be learnt"}}};

/// The member, unless it is null, or has nothing in it.
std::optional<JsonField> find(const JsonField& object, const char* key) {
  const auto found = object.object().find(key);
  if (found == object.value().end() || found->is_null()) return std::nullopt;
  if ((found->is_string() && found->get_ref<const std::string&>().empty()) ||
      (found->is_structured() && found->empty()))
    return std::nullopt;
  return object.member(key);
}

std::string role_of(std::string role, const LineNames& names) {
  if (names.role == kConversations.role)
    for (const auto& [theirs, ours] : kOtherRoles)
      if (role == theirs) role = ours;
  return role;
}

std::string content_of(const JsonField& content) {
  if (!content.value().is_array()) return content.text();
  std::string text;
  for (const JsonField& part : content.elements()) {
    const JsonField type = part.member("type");
    if (type.text() != "text")
      type.fail(fmt::format("is '{}', but only parts of text are read", one_line(type.text())));
    text += part.member("text").text();
  }
  return text;
}

/// `ordered` is the same call with its names in the line's order.
ToolCall parse_call(const JsonField& field, const ordered_json& ordered) {
  const bool is_wrapped = field.object().contains("function");
  const JsonField call = is_wrapped ? field.member("function") : field;
  const ordered_json& same = is_wrapped ? ordered.at("function") : ordered;
  const JsonField arguments = call.member("arguments");
  ToolCall result{.name = call.member("name").text(), .arguments = {}};
  if (arguments.value().is_string()) {
    result.arguments = arguments.text();
    if (!try_parse_json_object(result.arguments))
      arguments.fail("must be an object, or text of one");
  } else {
    static_cast<void>(arguments.object());
    result.arguments = python_json(same.at("arguments"), /*indent=*/0);
  }
  return result;
}

/// Reads the line a second time where it has calls or tools: their names have an order.
class LineReader {
 public:
  LineReader(std::string_view line, const JsonField& object, const LineNames& names)
      : line_(line), object_(object), names_(names) {}

  Conversation read() {
    Conversation result;
    const std::vector<JsonField> messages = object_.member(names_.messages).elements();
    for (std::size_t i = 0; i < messages.size(); ++i)
      result.messages.push_back(read_message(messages[i], i));
    if (const auto tools = find(object_, kTools))
      for (const JsonField& tool : tools->elements()) {
        static_cast<void>(tool.object());
        result.tools.push_back(ordered().at(kTools).at(result.tools.size()));
      }
    return result;
  }

 private:
  ChatMessage read_message(const JsonField& message, std::size_t number) {
    for (const auto& [key, what] : kRefused)
      if (const auto field = find(message, key); field && field->value() != 1) field->fail(what);
    ChatMessage result{.role = role_of(message.member(names_.role).text(), names_)};
    if (const auto calls = find(message, kCalls)) {
      if (result.role != kAssistant)
        calls->fail("stands beside a role that is not the assistant's");
      for (const JsonField& call : calls->elements())
        result.calls.push_back(parse_call(
            call, ordered().at(names_.messages).at(number).at(kCalls).at(result.calls.size())));
    }
    if (result.calls.empty() || find(message, names_.content))
      result.content = content_of(message.member(names_.content));
    return result;
  }
  const ordered_json& ordered() {
    if (!ordered_) ordered_ = parse_ordered_json(line_, kLine, kLineRemedy);
    return *ordered_;
  }

  std::string_view line_;
  const JsonField& object_;
  const LineNames& names_;
  std::optional<ordered_json> ordered_;
};

}  // namespace

Conversation parse_conversation(std::string_view line) {
  const nlohmann::json document = parse_json_object(line, kLine, kLineRemedy);
  const JsonField object(document, kLine, kLineRemedy);
  const bool is_other =
      document.contains(kConversations.messages) && !document.contains(kMessages.messages);
  return LineReader(line, object, is_other ? kConversations : kMessages).read();
}

}  // namespace dos::data

// SPDX-License-Identifier: Apache-2.0
#include "data/chat/conversation.hpp"

#include <fmt/ranges.h>

#include <array>

#include "base/error.hpp"
#include "base/json.hpp"

namespace dos::data {
namespace {

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

/// Names of roles in "conversations".
constexpr std::array<std::pair<const char*, const char*>, 2> kOtherRoles{
    {{"human", kUser}, {"gpt", kAssistant}}};

std::string role_of(std::string role, const LineNames& names) {
  if (names.role == kConversations.role)
    for (const auto& [theirs, ours] : kOtherRoles)
      if (role == theirs) role = ours;
  return role;
}

ChatMessage parse_message(const JsonField& message, const LineNames& names) {
  for (const char* key : {"tool_calls", "function_call"})
    if (message.object().contains(key) && !message.member(key).value().is_null())
      message.member(key).fail("is a call of a tool, which no template writes");
  return {.role = role_of(message.member(names.role).text(), names),
          .content = message.member(names.content).text()};
}

/// As Python's strip(), of white space in ASCII.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

/// Appends texts, joining those that count alike.
class ChatLayout {
 public:
  explicit ChatLayout(const ChatTemplate& chat) : chat_(chat) { add(chat.start, false); }

  void add(const ChatMessage& message, std::size_t number) {
    const ChatRole& role = find(message.role, number);
    const bool counts = message.role == kAssistant;
    add(role.before, false);
    span(counts);
    const std::string_view content = chat_.trims ? trimmed(message.content) : message.content;
    ChatSpan& last = spans_.back();
    last.quoted.emplace_back(last.text.size(), last.text.size() + content.size());
    last.text += content;
    add(role.end, counts);
    add(role.after, false);
  }
  void open(const std::string& role) { add(find(role, 0).before, false); }
  [[nodiscard]] std::vector<ChatSpan> take() && { return std::move(spans_); }

 private:
  [[nodiscard]] const ChatRole& find(const std::string& name, std::size_t number) const {
    const auto role = chat_.roles.find(name);
    std::vector<std::string> known;
    if (role == chat_.roles.end())
      for (const auto& [each, texts] : chat_.roles) known.push_back(each);
    expect(role != chat_.roles.end(),
           "message {} has the role '{}', which the chat template '{}' has not: it has {}; use "
           "another template, or mend the line",
           number, one_line(name), chat_.name, fmt::join(known, ", "));
    return role->second;
  }
  void span(bool counts) {
    if (spans_.empty() || spans_.back().counts != counts)
      spans_.push_back({.text = {}, .quoted = {}, .counts = counts});
  }
  void add(const std::string& text, bool counts) {
    if (text.empty()) return;
    span(counts);
    spans_.back().text += text;
  }

  const ChatTemplate& chat_;
  std::vector<ChatSpan> spans_;
};

ChatLayout laid_out(const ChatTemplate& chat, const std::vector<ChatMessage>& messages) {
  ChatLayout layout(chat);
  for (std::size_t i = 0; i < messages.size(); ++i) layout.add(messages[i], i + 1);
  return layout;
}

}  // namespace

std::vector<ChatMessage> parse_conversation(std::string_view line) {
  const nlohmann::json document = parse_json_object(line, "the line", kLineRemedy);
  const JsonField object(document, "the line", kLineRemedy);
  const bool is_other =
      document.contains(kConversations.messages) && !document.contains(kMessages.messages);
  const LineNames& names = is_other ? kConversations : kMessages;
  std::vector<ChatMessage> messages;
  for (const JsonField& message : object.member(names.messages).elements())
    messages.push_back(parse_message(message, names));
  return messages;
}

std::vector<ChatSpan> lay_out(const ChatTemplate& chat, const std::vector<ChatMessage>& messages) {
  return laid_out(chat, messages).take();
}

std::vector<ChatSpan> lay_out_prompt(const ChatTemplate& chat,
                                     const std::vector<ChatMessage>& messages) {
  ChatLayout layout = laid_out(chat, messages);
  layout.open(kAssistant);
  return std::move(layout).take();
}

}  // namespace dos::data

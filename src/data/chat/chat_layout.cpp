// SPDX-License-Identifier: Apache-2.0
#include "data/chat/chat_layout.hpp"

#include <fmt/ranges.h>

#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "data/chat/python_json.hpp"

namespace dos::data {
namespace {

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
  ChatLayout(const ChatTemplate& chat, const Conversation& conversation)
      : chat_(chat), conversation_(conversation) {
    add(chat.start, false);
  }

  void add_all() {
    const std::vector<ChatMessage>& messages = conversation_.messages;
    const bool has_tools = !conversation_.tools.empty();
    if (has_tools) expect_tools_fit();
    const bool has_system = !messages.empty() && messages.front().role == kSystem;
    std::size_t next = 0;
    if (has_tools && (chat_.tools->role == kSystem || !chat_.tools->system.empty())) {
      const ChatMessage none{.role = kSystem};
      add_system(has_system ? messages.front() : none, has_system);
      next = has_system ? 1 : 0;
    }
    for (; next < messages.size(); ++next) add_message(next);
  }
  void open(const std::string& role) { add(find(role, 0).before, false); }
  [[nodiscard]] std::vector<ChatSpan> take() && { return std::move(spans_); }

 private:
  void expect_tools_fit() const {
    expect(
        chat_.tools.has_value(),
        "the line has tools, for which the chat template '{}' has no form; use another template, "
        "or take them out",
        chat_.name);
    if (chat_.tools->role == kSystem) return;
    const std::vector<ChatMessage>& messages = conversation_.messages;
    const std::size_t first = !messages.empty() && messages.front().role == kSystem ? 1 : 0;
    expect(first < messages.size() && messages[first].role == chat_.tools->role,
           "the line has tools, which the chat template '{}' writes into a first message of the "
           "{}, but message {} is none; mend the line",
           chat_.name, chat_.tools->role, first + 1);
  }

  /// The first message of a conversation with tools, made up where none is there.
  void add_system(const ChatMessage& message, bool is_there) {
    const ChatRole& role = find(kSystem, 1);
    const ChatTools& tools = *chat_.tools;
    add(role.before, false);
    add(tools.system, false);
    quote(text_of(message, role), false);
    if (tools.role == kSystem) {
      if (is_there) add(tools.between, false);
      add_definitions();
    }
    add(role.end, false);
    add(role.after, false);
  }

  void add_message(std::size_t index) {
    const std::vector<ChatMessage>& messages = conversation_.messages;
    const ChatMessage& message = messages[index];
    const ChatRole& role = find(message.role, index + 1);
    const bool counts = message.role == kAssistant;
    const auto is_joined = [&](std::size_t first) {
      return !role.joint.empty() && first + 1 < messages.size() &&
             messages[first].role == messages[first + 1].role;
    };
    if (index == 0 || !is_joined(index - 1)) add(role.before, false);
    if (holds_definitions(index)) add_definitions();
    quote(text_of(message, role), counts);
    for (std::size_t i = 0; i < message.calls.size(); ++i) add_call(message, i, index + 1);
    if (is_joined(index)) {
      add(role.joint, counts);
    } else {
      add(role.end, counts);
      add(role.after, false);
    }
  }

  [[nodiscard]] bool holds_definitions(std::size_t index) const {
    if (conversation_.tools.empty() || chat_.tools->role == kSystem) return false;
    return index == (conversation_.messages.front().role == kSystem ? 1U : 0U);
  }

  void add_definitions() {
    const ChatTools& tools = *chat_.tools;
    add(tools.before, false);
    for (const nlohmann::ordered_json& tool : conversation_.tools) {
      add(tools.each_before, false);
      quote(python_json(tool, tools.indent), false);
      add(tools.each_after, false);
    }
    add(tools.after, false);
  }

  void add_call(const ChatMessage& message, std::size_t index, std::size_t number) {
    constexpr const char* kRemedy = "use another template, or mend the line";
    expect(chat_.calls.has_value(),
           "message {} calls a tool, for which the chat template '{}' has no form; {}", number,
           chat_.name, kRemedy);
    const ChatCalls& calls = *chat_.calls;
    expect(calls.several || message.calls.size() == 1,
           "message {} calls {} tools at once, but the chat template '{}' writes one; {}", number,
           message.calls.size(), chat_.name, kRemedy);
    expect(calls.beside_text || message.content.empty(),
           "message {} has text beside a call of a tool, which the chat template '{}' does not "
           "write; {}",
           number, chat_.name, kRemedy);
    if (index > 0 || !message.content.empty()) add(calls.between, true);
    add(calls.before, true);
    quote(message.calls[index].name, true);
    add(calls.middle, true);
    quote(message.calls[index].arguments, true);
    add(calls.after, true);
  }

  [[nodiscard]] std::string text_of(const ChatMessage& message, const ChatRole& role) const {
    if (role.is_json) return python_json(message.content, /*indent=*/0);
    return std::string(chat_.trims ? trimmed(message.content) : message.content);
  }

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
  void quote(const std::string& text, bool counts) {
    span(counts);
    ChatSpan& last = spans_.back();
    last.quoted.emplace_back(last.text.size(), last.text.size() + text.size());
    last.text += text;
  }

  const ChatTemplate& chat_;
  const Conversation& conversation_;
  std::vector<ChatSpan> spans_;
};

}  // namespace

std::vector<ChatSpan> lay_out(const ChatTemplate& chat, const Conversation& conversation) {
  ChatLayout layout(chat, conversation);
  layout.add_all();
  return std::move(layout).take();
}

std::vector<ChatSpan> lay_out_prompt(const ChatTemplate& chat, const Conversation& conversation) {
  ChatLayout layout(chat, conversation);
  layout.add_all();
  layout.open(kAssistant);
  return std::move(layout).take();
}

}  // namespace dos::data

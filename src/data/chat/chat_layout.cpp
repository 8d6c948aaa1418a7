// SPDX-License-Identifier: Apache-2.0
#include "data/chat/chat_layout.hpp"

#include <fmt/ranges.h>

#include <optional>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "data/chat/python_json.hpp"

namespace dos::data {
namespace {

/// A piece of what stands in a turn.
struct Said {
  std::string text;
  bool is_quoted = true;  ///< by a message, not by the template
};

/// As Python's strip() of all pieces together, of white space in ASCII.
void trim(std::vector<Said>& pieces) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  for (Said& piece : pieces) {
    piece.text.erase(0, piece.text.find_first_not_of(kSpace));
    if (!piece.text.empty()) break;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    piece->text.erase(piece->text.find_last_not_of(kSpace) + 1);
    if (!piece->text.empty()) break;
  }
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
    if (chat_.alternates) expect_alternating(has_system ? 1 : 0);
    std::size_t next = 0;
    if (has_system && !find(kSystem, 1).into.empty()) {
      into_ = find_into(find(kSystem, 1));
      next = 1;
    }
    if (has_tools && (chat_.tools->role == kSystem || !chat_.tools->system.empty())) {
      const ChatMessage none{.role = kSystem};
      add_system(has_system ? messages.front() : none, has_system);
      next = has_system ? 1 : 0;
    }
    for (; next < messages.size(); ++next) add_message(next);
  }
  /// What stands before an answer that is to be generated: its turn's begin is a part of it.
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

  void expect_alternating(std::size_t first) const {
    const std::vector<ChatMessage>& messages = conversation_.messages;
    for (std::size_t i = first; i < messages.size(); ++i) {
      const char* expected = (i - first) % 2 == 0 ? kUser : kAssistant;
      expect(messages[i].role == expected,
             "message {} has the role '{}', where the chat template '{}' has one of the {}: they "
             "take turns; use another template, or mend the line",
             i + 1, one_line(messages[i].role), chat_.name, expected);
    }
  }

  /// The message of the user that the system's is written into.
  [[nodiscard]] std::size_t find_into(const ChatRole& system) const {
    const std::vector<ChatMessage>& messages = conversation_.messages;
    std::optional<std::size_t> found;
    for (std::size_t i = 1; i < messages.size(); ++i)
      if (messages[i].role == kUser && (!found || system.into == kLast)) found = i;
    expect(found.has_value(),
           "message 1 is the system's, which the chat template '{}' writes into one of the user, "
           "but there is none; use another template, or mend the line",
           chat_.name);
    return *found;
  }

  /// The first message of a conversation with tools, made up where none is there.
  void add_system(const ChatMessage& message, bool is_there) {
    const ChatRole& role = find(kSystem, 1);
    const ChatTools& tools = *chat_.tools;
    add(role.before, false);
    add(role.begin, false);
    add(tools.system, false);
    add(content_of(message, role), false);
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
    if (index == 0 || !is_joined(index - 1)) {
      add(role.before, false);
      add(role.begin, counts);
    }
    if (holds_definitions(index)) add_definitions();
    add(content_of(message, role, index == into_), counts);
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

  /// `holds_system`: with the system's message ahead of it.
  [[nodiscard]] std::vector<Said> content_of(const ChatMessage& message, const ChatRole& role,
                                             bool holds_system = false) const {
    if (role.is_json) return {{.text = python_json(message.content, /*indent=*/0)}};
    std::vector<Said> pieces;
    if (holds_system) {
      const ChatRole& system = find(kSystem, 1);
      pieces = {{.text = system.before + system.begin, .is_quoted = false},
                {.text = conversation_.messages.front().content},
                {.text = system.end + system.after, .is_quoted = false}};
    }
    pieces.push_back({.text = message.content});
    if (chat_.trims || role.trims) trim(pieces);
    return pieces;
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
  void add(const std::vector<Said>& pieces, bool counts) {
    for (const Said& piece : pieces)
      if (piece.is_quoted)
        quote(piece.text, counts);
      else
        add(piece.text, counts);
  }
  void quote(const std::string& text, bool counts) {
    span(counts);
    ChatSpan& last = spans_.back();
    last.quoted.emplace_back(last.text.size(), last.text.size() + text.size());
    last.text += text;
  }

  const ChatTemplate& chat_;
  const Conversation& conversation_;
  std::optional<std::size_t> into_{};  ///< the message that the system's is written into
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

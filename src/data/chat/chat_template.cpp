// SPDX-License-Identifier: Apache-2.0
#include "data/chat/chat_template.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/nearest.hpp"
#include "data/missing.hpp"

namespace dos::data {
namespace {

constexpr const char* kTemplateRemedy =
    "mend the chat template, or name a built-in one; docs/data.md has the format";

/// Every role as another one, with its name in its place.
ChatRole chatml_role(const std::string& name) {
  return {.before = "<|im_start|>" + name + "\n", .end = "<|im_end|>", .after = "\n"};
}

ChatRole llama3_role(const std::string& name) {
  return {.before = "<|start_header_id|>" + name + "<|end_header_id|>\n\n",
          .end = "<|eot_id|>",
          .after = ""};
}

/// As Qwen 2.5 and 3 write messages, without the system message that 2.5 adds.
ChatTemplate chatml() {
  return {.name = "chatml",
          .tokens = {"<|im_start|>", "<|im_end|>"},
          .start = "",
          .trims = false,
          .roles = {{"system", chatml_role("system")},
                    {kUser, chatml_role("user")},
                    {kAssistant, chatml_role("assistant")},
                    {"tool",
                     {.before = "<|im_start|>user\n<tool_response>\n",
                      .end = "\n</tool_response><|im_end|>",
                      .after = "\n"}}}};
}

/// As Llama 3 writes messages.
ChatTemplate llama3() {
  return {.name = "llama-3",
          .tokens = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
          .start = "<|begin_of_text|>",
          .trims = true,
          .roles = {{"system", llama3_role("system")},
                    {kUser, llama3_role("user")},
                    {kAssistant, llama3_role("assistant")},
                    {"tool", llama3_role("ipython")}}};
}

/// As Mistral's V7 tokenizers write messages.
ChatTemplate mistral() {
  return {
      .name = "mistral",
      .tokens = {"<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"},
      .start = "<s>",
      .trims = false,
      .roles = {{"system", {.before = "[SYSTEM_PROMPT]", .end = "[/SYSTEM_PROMPT]", .after = ""}},
                {kUser, {.before = "[INST]", .end = "[/INST]", .after = ""}},
                {kAssistant, {.before = "", .end = "</s>", .after = ""}}}};
}

const std::array<ChatTemplate, 3>& built_in_templates() {
  static const std::array templates{chatml(), llama3(), mistral()};
  return templates;
}

/// Throws for a member that nobody reads: a mistyped one would change nothing, silently.
void expect_known(const JsonField& object, std::initializer_list<const char*> known) {
  for (const auto& [key, value] : object.object().items())
    if (std::ranges::find(known, key) == known.end())
      object.member(key).fail(fmt::format("is unknown; known are {}", fmt::join(known, ", ")));
}

std::string text_or_empty(const JsonField& object, const char* key) {
  return object.object().contains(key) ? object.member(key).text() : "";
}

ChatRole parse_role(const JsonField& role) {
  expect_known(role, {"before", "end", "after"});
  return {.before = text_or_empty(role, "before"),
          .end = text_or_empty(role, "end"),
          .after = text_or_empty(role, "after")};
}

}  // namespace

ChatTemplate parse_chat_template(const JsonField& object) {
  expect_known(object, {"name", "tokens", "start", "trim", "roles"});
  ChatTemplate chat{.name = object.member("name").text(),
                    .tokens = {},
                    .start = text_or_empty(object, "start"),
                    .roles = {}};
  for (const JsonField& token : object.member("tokens").elements()) {
    if (token.text().empty()) token.fail("is empty");
    chat.tokens.push_back(token.text());
  }
  if (object.object().contains("trim")) chat.trims = object.member("trim").truth();
  const JsonField roles = object.member("roles");
  for (const auto& [name, value] : roles.object().items())
    chat.roles[name] = parse_role(roles.member(name));
  const JsonField end = roles.member(kAssistant).member("end");
  if (std::ranges::find(chat.tokens, end.text()) == chat.tokens.end())
    end.fail("must be one of \"tokens\": it is where the generation of an answer stops");
  return chat;
}

nlohmann::ordered_json to_json(const ChatTemplate& chat) {
  nlohmann::ordered_json roles = nlohmann::ordered_json::object();
  for (const auto& [name, role] : chat.roles)
    roles[name] = {{"before", role.before}, {"end", role.end}, {"after", role.after}};
  return {{"name", chat.name},
          {"tokens", chat.tokens},
          {"start", chat.start},
          {"trim", chat.trims},
          {"roles", std::move(roles)}};
}

std::vector<std::string> chat_template_names() {
  std::vector<std::string> names;
  for (const ChatTemplate& chat : built_in_templates()) names.push_back(chat.name);
  return names;
}

ChatTemplate find_chat_template(const std::string& name) {
  for (const ChatTemplate& chat : built_in_templates())
    if (chat.name == name) return chat;
  const std::vector<std::string> names = chat_template_names();
  expect(!is_missing(name), "--chat {}: no template of that name and no such file; known are {}{}",
         name, fmt::join(names, ", "), did_you_mean(name, names));
  const nlohmann::json document = read_json_object(name, kTemplateRemedy);
  return parse_chat_template(JsonField(document, name, kTemplateRemedy));
}

}  // namespace dos::data

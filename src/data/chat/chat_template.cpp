// SPDX-License-Identifier: Apache-2.0
#include "data/chat/chat_template.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

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
  return {
      .name = "chatml",
      .tokens = {"<|im_start|>", "<|im_end|>"},
      .start = "",
      .trims = false,
      .roles = {{kSystem, chatml_role(kSystem)},
                {kUser, chatml_role(kUser)},
                {kAssistant, chatml_role(kAssistant)},
                {"tool",
                 {.before = "<|im_start|>user\n<tool_response>\n",
                  .end = "\n</tool_response><|im_end|>",
                  .after = "\n",
                  .joint = "\n</tool_response>\n<tool_response>\n"}}},
      .tools = ChatTools{.role = kSystem,
                         .system = "",
                         .between = "\n\n",
                         .before = "# Tools\n\nYou may call one or more functions to assist with "
                                   "the user query.\n\nYou are provided with function signatures "
                                   "within <tools></tools> XML tags:\n<tools>",
                         .each_before = "\n",
                         .each_after = "",
                         .indent = 0,
                         .after = "\n</tools>\n\nFor each function call, return a json object with "
                                  "function name and arguments within <tool_call></tool_call> XML "
                                  "tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
                                  "<args-json-object>}\n</tool_call>"},
      .calls = ChatCalls{.between = "\n",
                         .before = "<tool_call>\n{\"name\": \"",
                         .middle = "\", \"arguments\": ",
                         .after = "}\n</tool_call>"}};
}

/// As Llama 3 writes messages, and 3.1 tools, without what 3.1 adds: a system message, the date.
ChatTemplate llama3() {
  ChatRole result = llama3_role("ipython");
  result.is_json = true;
  return {
      .name = "llama-3",
      .tokens = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
      .start = "<|begin_of_text|>",
      .trims = true,
      .roles = {{kSystem, llama3_role(kSystem)},
                {kUser, llama3_role(kUser)},
                {kAssistant, llama3_role(kAssistant)},
                {"ipython", result},
                {"tool", result}},
      .tools = ChatTools{.role = kUser,
                         .system = "Environment: ipython\n",
                         .between = "",
                         .before = "Given the following functions, please respond with a JSON for "
                                   "a function call with its proper arguments that best answers "
                                   "the given prompt.\n\nRespond in the format {\"name\": function "
                                   "name, \"parameters\": dictionary of argument name and its "
                                   "value}.Do not use variables.\n\n",
                         .each_before = "",
                         .each_after = "\n\n",
                         .indent = 4,
                         .after = ""},
      .calls = ChatCalls{.between = "",
                         .before = "{\"name\": \"",
                         .middle = "\", \"parameters\": ",
                         .after = "}",
                         .several = false,
                         .beside_text = false}};
}

/// As Mistral's V7 tokenizers write messages.
ChatTemplate mistral() {
  return {
      .name = "mistral",
      .tokens = {"<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"},
      .start = "<s>",
      .trims = false,
      .roles = {{kSystem, {.before = "[SYSTEM_PROMPT]", .end = "[/SYSTEM_PROMPT]", .after = ""}},
                {kUser, {.before = "[INST]", .end = "[/INST]", .after = ""}},
                {kAssistant, {.before = "", .end = "</s>", .after = ""}}}};
}

/// As Mistral's V1 tokenizers write messages, with `before` and `after` around those of the user:
/// the system's stands in the first of them.
ChatTemplate instructions(const std::string& name, const std::string& before,
                          const std::string& after) {
  return {.name = name,
          .tokens = {"<s>", "</s>"},
          .start = "<s>",
          .trims = false,
          .roles = {{kSystem, {.before = "", .end = "\n\n", .after = "", .into = kFirst}},
                    {kUser, {.before = before, .end = after, .after = ""}},
                    {kAssistant, {.before = "", .end = "</s>", .after = "", .begin = " "}}},
          .alternates = true};
}

/// As Llama 2 writes messages: each instruction begins a text of its own.
ChatTemplate llama2() {
  ChatTemplate chat = instructions("llama-2", "<s>[INST] ", " [/INST]");
  chat.start = "";
  chat.trims = true;
  chat.roles[kSystem].before = "<<SYS>>\n";
  chat.roles[kSystem].end = "\n<</SYS>>\n\n";
  chat.roles[kAssistant].end = " </s>";
  return chat;
}

/// As Mistral's V3 tokenizers write messages, without tools: what stands around an instruction are
/// tokens.
ChatTemplate mistral_v3() {
  ChatTemplate chat = instructions("mistral-v3", "[INST] ", "[/INST]");
  chat.tokens.insert(chat.tokens.end(), {"[INST]", "[/INST]"});
  chat.roles[kSystem].into = kLast;
  chat.roles[kAssistant].trims = true;
  return chat;
}

const std::array<ChatTemplate, 6>& built_in_templates() {
  static const std::array templates{
      chatml(),     llama2(), llama3(), instructions("mistral-v1", " [INST] ", " [/INST]"),
      mistral_v3(), mistral()};
  return templates;
}

/// A member of an object, which may be left out: then its value stays as it is.
struct Member {
  const char* key;
  std::variant<std::string*, bool*, Index*> value;
  bool is_rare = false;  ///< written only where it is neither empty, false nor 0
};
using Members = std::vector<Member>;

Members members_of(ChatRole& role) {
  return {{"before", &role.before},
          {"end", &role.end},
          {"after", &role.after},
          {"begin", &role.begin, /*is_rare=*/true},
          {"joint", &role.joint, /*is_rare=*/true},
          {"into", &role.into, /*is_rare=*/true},
          {"trim", &role.trims, /*is_rare=*/true},
          {"json", &role.is_json, /*is_rare=*/true}};
}

Members members_of(ChatTools& tools) {
  return {{"role", &tools.role},
          {"system", &tools.system},
          {"between", &tools.between},
          {"before", &tools.before},
          {"each_before", &tools.each_before},
          {"each_after", &tools.each_after},
          {"indent", &tools.indent},
          {"after", &tools.after}};
}

Members members_of(ChatCalls& calls) {
  return {{"between", &calls.between}, {"before", &calls.before},
          {"middle", &calls.middle},   {"after", &calls.after},
          {"several", &calls.several}, {"beside_text", &calls.beside_text}};
}

void take(const JsonField& field, std::string& value) {
  value = field.text();
}
void take(const JsonField& field, bool& value) {
  value = field.truth();
}
void take(const JsonField& field, Index& value) {
  value = field.index();
}

/// Throws for a member that is neither one of these nor of `others`: a mistyped one would change
/// nothing, silently.
void read(const JsonField& object, const Members& members,
          std::vector<std::string_view> others = {}) {
  std::vector<std::string_view> known = std::move(others);
  for (const Member& member : members) known.emplace_back(member.key);
  for (const auto& [key, value] : object.object().items())
    if (std::ranges::find(known, key) == known.end())
      object.member(key).fail(fmt::format("is unknown; known are {}", fmt::join(known, ", ")));
  for (const Member& member : members)
    if (object.object().contains(member.key))
      std::visit([&](auto* value) { take(object.member(member.key), *value); }, member.value);
}

template <class Described>
nlohmann::ordered_json json_of(Described described) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const auto add = [&](const Member& member, const auto& value) {
    if (!member.is_rare || value != std::remove_cvref_t<decltype(value)>())
      json[member.key] = value;
  };
  for (const Member& member : members_of(described))
    std::visit([&](const auto* value) { add(member, *value); }, member.value);
  return json;
}

ChatRole parse_role(const JsonField& object) {
  ChatRole role;
  read(object, members_of(role));
  if (!role.into.empty() && role.into != kFirst && role.into != kLast)
    object.member("into").fail("must be \"first\" or \"last\"");
  return role;
}

/// A role that is written into the user's message.
void expect_into_fits(const JsonField& roles, const ChatTemplate& chat, bool has_tools) {
  for (const auto& [name, role] : chat.roles) {
    if (role.into.empty()) continue;
    const JsonField into = roles.member(name).member("into");
    if (name != kSystem) into.fail("is for the role \"system\" alone");
    if (!chat.roles.contains(kUser)) into.fail("needs the role \"user\" in \"roles\"");
    if (has_tools) into.fail("cannot stand beside \"tools\"");
  }
}

ChatTools parse_tools(const JsonField& object, const ChatTemplate& chat) {
  constexpr Index kMostIndent = 16;
  ChatTools tools;
  read(object, members_of(tools));
  const JsonField role = object.member("role");
  if (tools.role != kSystem && tools.role != kUser) role.fail("must be \"system\" or \"user\"");
  if (!chat.roles.contains(tools.role)) role.fail("is not one of \"roles\"");
  if (tools.indent > kMostIndent)
    object.member("indent").fail(fmt::format("must be at most {}", kMostIndent));
  if (!tools.system.empty() && !chat.roles.contains(kSystem))
    object.member("system").fail("needs the role \"system\" in \"roles\"");
  return tools;
}

ChatCalls parse_calls(const JsonField& object) {
  ChatCalls calls;
  read(object, members_of(calls));
  return calls;
}

/// The longest of the tokens with which an answer's text ends; null for none.
const std::string* find_end(const ChatTemplate& chat) {
  const std::string& end = chat.roles.at(kAssistant).end;
  const std::string* found = nullptr;
  for (const std::string& token : chat.tokens)
    if (end.ends_with(token) && (found == nullptr || token.size() > found->size())) found = &token;
  return found;
}

}  // namespace

const std::string& ChatTemplate::end_of_turn() const {
  const std::string* end = find_end(*this);
  require(end != nullptr, "the assistant's turn ends with a token");
  return *end;
}

ChatTemplate parse_chat_template(const JsonField& object) {
  ChatTemplate chat;
  read(object, {{"start", &chat.start}, {"trim", &chat.trims}, {"alternate", &chat.alternates}},
       {"name", "tokens", "roles", "tools", "calls"});
  chat.name = object.member("name").text();
  for (const JsonField& token : object.member("tokens").elements()) {
    if (token.text().empty()) token.fail("is empty");
    chat.tokens.push_back(token.text());
  }
  const JsonField roles = object.member("roles");
  for (const auto& [name, value] : roles.object().items())
    chat.roles[name] = parse_role(roles.member(name));
  const JsonField end = roles.member(kAssistant).member("end");
  if (find_end(chat) == nullptr)
    end.fail("must end with one of \"tokens\": it is where the generation of an answer stops");
  expect_into_fits(roles, chat, object.object().contains("tools"));
  if (object.object().contains("tools")) chat.tools = parse_tools(object.member("tools"), chat);
  if (object.object().contains("calls")) chat.calls = parse_calls(object.member("calls"));
  return chat;
}

nlohmann::ordered_json to_json(const ChatTemplate& chat) {
  nlohmann::ordered_json roles = nlohmann::ordered_json::object();
  for (const auto& [name, role] : chat.roles) roles[name] = json_of(role);
  nlohmann::ordered_json json{{"name", chat.name},
                              {"tokens", chat.tokens},
                              {"start", chat.start},
                              {"trim", chat.trims},
                              {"roles", std::move(roles)}};
  if (chat.alternates) json["alternate"] = true;
  if (chat.tools) json["tools"] = json_of(*chat.tools);
  if (chat.calls) json["calls"] = json_of(*chat.calls);
  return json;
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

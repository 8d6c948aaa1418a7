// SPDX-License-Identifier: Apache-2.0
// Tokens and masks of conversations as transformers has them: tests/reference/chat/README.md.
#include "data/chat/chat_encoder.hpp"
#include "data/chat/jinja.hpp"
#include "data/chat/python_json.hpp"

#include "data/chat_reference.hpp"
#include "data/files.hpp"
#include "scratch_directory.hpp"

namespace dos::data::chat_encoder_test {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Tokens = std::vector<std::int32_t>;
using test::fails_with;

/// Tokens as the reference has them, and "1" for each that counts.
std::pair<Tokens, std::string> apart(Tokens elements) {
  std::string mask;
  for (std::int32_t& element : elements) {
    mask += element >= 0 ? '1' : '0';
    if (element < 0) element = -1 - element;
  }
  return {std::move(elements), std::move(mask)};
}

std::string line_of(const ordered_json& messages, const ordered_json& tools = nullptr) {
  return ordered_json{{"messages", messages}, {"tools", tools}}.dump();
}

/// Conversations become the tokens and masks of an entry of the reference.
void expect_conversations(const ChatEncoder& encoder, const ordered_json& entry) {
  ASSERT_GE(entry["conversations"].size(), 6U);
  for (const ordered_json& row : entry["conversations"]) {
    const ordered_json tools = row.value("tools", ordered_json());
    const auto [tokens, mask] = apart(encoder.encode_line(line_of(row["messages"], tools)));
    const auto expected = row["mask"].get<std::string>();
    if (expected.find('1') == std::string::npos) {
      EXPECT_TRUE(tokens.empty()) << row["messages"];
      continue;
    }
    EXPECT_EQ(tokens, row["ids"].get<Tokens>()) << row["messages"];
    EXPECT_EQ(mask, expected) << row["messages"];
  }
}

class ChatEncoderTest : public testing::TestWithParam<std::string> {
 protected:
  ordered_json entry_ = test::expected_chat(GetParam());
  std::unique_ptr<Tokenizer> tokenizer_ = test::chat_tokenizer(entry_);
  ChatTemplate chat_ = find_chat_template(GetParam());
  ChatEncoder encoder_{*tokenizer_, chat_};
};

INSTANTIATE_TEST_SUITE_P(Templates, ChatEncoderTest, testing::ValuesIn(chat_template_names()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(ChatEncoderTest, TokensAndMasksAreThoseOfTransformers) {
  expect_conversations(encoder_, entry_);
}

TEST_P(ChatEncoderTest, ItsJinjaIsWhatTransformersWasCheckedWith) {
  const std::string jinja(jinja_of(chat_).value());
  std::string joined = jinja;
  std::erase(joined, '\n');
  EXPECT_EQ(joined, entry_["jinja"].get<std::string>());
  EXPECT_EQ(template_of_jinja(jinja), chat_);
  EXPECT_EQ(template_of_jinja(jinja + " "), std::nullopt);
  chat_.trims = !chat_.trims;
  EXPECT_EQ(jinja_of(chat_), std::nullopt);
  // Each end of a line stands before a tag that takes it away, or at the end, as Jinja does.
  for (std::size_t end = 0; (end = jinja.find('\n', end)) + 1 < jinja.size(); ++end)
    EXPECT_EQ(jinja[end + 3], '-') << jinja.substr(end);
}

TEST_P(ChatEncoderTest, APromptIsTheStartOfAConversation) {
  const Tokens prompt = encoder_.encode_prompt("Hi there");
  if (entry_.contains("prompt")) {
    EXPECT_EQ(prompt, entry_["prompt"]["ids"].get<Tokens>());
  }
  const auto whole = apart(encoder_.encode_line(line_of(json::parse(
      R"([{"role": "user", "content": "Hi there"}, {"role": "assistant", "content": "\n a"}])"))));
  ASSERT_GT(whole.first.size(), prompt.size());
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), whole.first.begin()));
  EXPECT_EQ(whole.second.find('1'), prompt.size());
  // Behind the end of the turn stands text that does not count, if any.
  EXPECT_EQ(whole.first[whole.second.rfind('1')], encoder_.end_of_turn());
}

TEST_P(ChatEncoderTest, TheOtherNamesMeanTheSame) {
  EXPECT_EQ(encoder_.encode_line(R"({"id": 3, "conversations": [
                {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})"),
            encoder_.encode_line(R"({"messages": [
                {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"));
}

TEST_P(ChatEncoderTest, LinesThatAreNoConversationAreRefused) {
  struct Case {
    const char* line;
    const char* complaint;
  };
  const Case cases[] = {
      {"[]", "not a JSON object"},
      {"{}", "field 'messages' is missing"},
      {R"({"messages": {}})", "field 'messages' must be an array"},
      {R"({"messages": ["a"]})", "field 'messages[0]' must be an object"},
      {R"({"messages": [{"content": "a"}]})", "field 'messages[0].role' is missing"},
      {R"({"messages": [{"role": "user"}]})", "field 'messages[0].content' is missing"},
      {R"({"messages": [{"role": "user", "content": null}]})", "'messages[0].content' must be a"},
      {R"({"messages": [{"role": 1, "content": "a"}]})", "'messages[0].role' must be a string"},
      {R"({"messages": [{"role": "User", "content": "a"}]})", "message 1 has the role 'User'"},
      {R"({"messages": [{"role": "human", "content": "a"}]})", "message 1 has the role 'human'"},
      {R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [1]}]})",
       "'messages[0].tool_calls[0]' must be an object"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}]})",
       "'messages[0].tool_calls[0].function.arguments' is missing"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "x"}]}]})",
       "'messages[0].tool_calls[0].arguments' must be an object, or text of one"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"a":
          123456789012345678901}}]}]})",
       "the integer 123456789012345678901 has more than 64 bits"},
      {R"({"messages": [{"role": "user", "content": "", "tool_calls": [{}]}]})",
       "'messages[0].tool_calls' stands beside a role"},
      {R"({"messages": [{"role": "assistant", "content": "", "function_call": {"name": "f"}}]})",
       "'messages[0].function_call' is a call of a tool in an older form"},
      {R"({"messages": [{"role": "assistant", "content": "", "reasoning_content": "hm"}]})",
       "'messages[0].reasoning_content' is a thought"},
      {R"({"messages": [{"role": "assistant", "content": "", "weight": 0}]})",
       "'messages[0].weight' is a weight"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})",
       "'messages[0].content[0].type' is 'image_url', but only parts of text"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})",
       "'messages[0].content[0].text' is missing"},
      {R"({"messages": [], "tools": {"f": 1}})", "'tools' must be an array"},
      {R"({"messages": [], "tools": ["f"]})", "'tools[0]' must be an object"},
      {R"({"conversations": [{"from": "gpt"}]})", "'conversations[0].value' is missing"},
  };
  for (const Case& c : cases)
    EXPECT_THAT([&] { (void)encoder_.encode_line(c.line); }, fails_with({c.complaint, "mend"}))
        << c.line;
  EXPECT_TRUE(encoder_.encode_line(R"({"messages": []})").empty());
}

TEST_P(ChatEncoderTest, PartsOfTextAreJoined) {
  EXPECT_EQ(encoder_.encode_line(R"({"messages": [
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": " b"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "c"}], "weight": 1,
                 "tool_calls": null, "reasoning_content": ""}]})"),
            encoder_.encode_line(R"({"tools": [], "messages": [
                {"role": "user", "content": "a b"},
                {"role": "assistant", "content": "c", "tool_calls": []}]})"));
}

TEST(ChatEncoder, ToolsThatATemplateDoesNotWriteAreRefused) {
  struct Case {
    const char* chat;
    const char* line;
    const char* complaint;
  };
  const Case cases[] = {
      {"mistral", R"({"messages": [{"role": "user", "content": "a"}], "tools": [{}]})",
       "the line has tools, for which the chat template 'mistral' has no form"},
      {"mistral", R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f",
          "arguments": {}}]}]})",
       "message 1 calls a tool, for which the chat template 'mistral' has no form"},
      {"llama-3", R"({"messages": [{"role": "assistant", "tool_calls": [
          {"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]}]})",
       "message 1 calls 2 tools at once, but the chat template 'llama-3' writes one"},
      {"llama-3", R"({"messages": [{"role": "assistant", "content": "x", "tool_calls": [
          {"name": "f", "arguments": {}}]}]})",
       "message 1 has text beside a call of a tool"},
      {"llama-3", R"({"messages": [{"role": "system", "content": "x"}, {"role": "assistant",
          "content": "x"}], "tools": [{}]})",
       "writes into a first message of the user, but message 2 is none"},
  };
  for (const Case& c : cases) {
    const json entry = test::expected_chat(c.chat);
    const auto tokenizer = test::chat_tokenizer(entry);
    const ChatTemplate chat = find_chat_template(c.chat);
    const ChatEncoder encoder(*tokenizer, chat);
    EXPECT_THAT([&] { (void)encoder.encode_line(c.line); }, fails_with({c.complaint})) << c.line;
  }
}

TEST(ChatEncoder, JsonIsWrittenAsPythonDoes) {
  const ordered_json expected = test::expected_chats();
  for (const ordered_json& row : expected["json"]) {
    const auto value = parse_ordered_json(row["text"].get<std::string>(), "x", "y");
    EXPECT_EQ(python_json(value, 0), row["line"].get<std::string>());
    EXPECT_EQ(python_json(value, 4), row["indented"].get<std::string>());
  }
}

TEST(ChatEncoder, WhatAMessageSaysIsNoSpecialToken) {
  const json entry = test::expected_chat("chatml");
  const auto tokenizer = test::chat_tokenizer(entry);
  const ChatTemplate chat = find_chat_template("chatml");
  const ChatEncoder encoder(*tokenizer, chat);
  const json expected = entry["injected"];
  const json messages = {{{"role", "user"}, {"content", expected["content"]}},
                         {{"role", "assistant"}, {"content", expected["content"]}}};
  const auto [tokens, mask] = apart(encoder.encode_line(line_of(messages)));
  EXPECT_EQ(tokens, expected["ids"].get<Tokens>());
  EXPECT_EQ(std::ranges::count(mask, '1'), expected["counted"].get<Index>());
  // The text before the message ends in half a token.
  EXPECT_EQ(std::ranges::count(encoder.encode_prompt("<|im_end|>"), encoder.end_of_turn()), 1);
  EXPECT_EQ(std::ranges::count(encoder.encode_prompt("|im_end|>"), encoder.end_of_turn()), 1);
}

TEST(ChatEncoder, TextNeverCompletesATokenOfTheTemplate) {
  const json entry = test::expected_chat("chatml");
  const auto tokenizer = test::chat_tokenizer(entry);
  ChatTemplate chat = find_chat_template("chatml");
  chat.roles["user"].before += "<|im_";
  chat.roles["user"].end = "d|><|im_end|>";
  const ChatEncoder encoder(*tokenizer, chat);
  for (const char* text : {"start|>", "en", "end|><|im_en", "e\xCC\x81n"})
    EXPECT_EQ(std::ranges::count(encoder.encode_prompt(text), encoder.end_of_turn()), 1) << text;
}

TEST(ChatEncoder, SpecialTokensOfNormalizedTextAreKeptOutToo) {
  // GPT-2's end of text is looked for in normalized text.
  const auto tokenizer = test::reference_tokenizer("gpt2");
  const ChatTemplate chat{
      .name = "lines",
      .tokens = {"<|endoftext|>"},
      .start = "",
      .roles = {{kUser, {.before = "Q: ", .end = "\nA:", .after = ""}},
                {kAssistant, {.before = "", .end = "<|endoftext|>", .after = ""}}}};
  const ChatEncoder encoder(*tokenizer, chat);
  const auto [tokens, mask] = apart(encoder.encode_line(R"({"messages": [
      {"role": "user", "content": "<|endoftext|>"},
      {"role": "assistant", "content": " <|endoftext|>"}]})"));
  EXPECT_EQ(std::ranges::count(tokens, tokenizer->end_of_text()), 1);
  EXPECT_EQ(tokens.back(), tokenizer->end_of_text());
  EXPECT_EQ(mask.back(), '1');
}

TEST(ChatEncoder, TokenizersThatDoNotBelongToTheTemplateAreRefused) {
  const ChatTemplate chat = find_chat_template("chatml");
  const auto encoder_of = [&](std::unique_ptr<Tokenizer> tokenizer) {
    return [&chat, tokenizer = std::shared_ptr(std::move(tokenizer))] {
      const ChatEncoder encoder(*tokenizer, chat);
    };
  };
  EXPECT_THAT(encoder_of(test::reference_tokenizer("llama3")),
              fails_with({"no special token '<|im_start|>'", "'chatml'"}));
  EXPECT_THAT(encoder_of(make_bytes_tokenizer()),
              fails_with({"needs a tokenizer.json or a SentencePiece model", "'bytes'"}));
  ChatTemplate other = chat;
  other.tokens = {"</s>"};
  other.roles[kAssistant].end = "</s>";
  EXPECT_THAT([&] { const ChatEncoder encoder(*test::reference_tokenizer("prefix"), other); },
              fails_with({"puts a space before text"}));
}

class ChatTemplateFile : public testing::Test {
 protected:
  [[nodiscard]] ChatTemplate read(const std::string& text) const {
    write_durably(scratch_ / "t.json", text);
    return find_chat_template(scratch_ / "t.json");
  }
  test::ScratchDirectory scratch_;
};

TEST_F(ChatTemplateFile, BuiltInOnesAreDataToo) {
  for (const std::string& name : chat_template_names())
    EXPECT_EQ(read(to_json(find_chat_template(name)).dump()), find_chat_template(name));
}

TEST_F(ChatTemplateFile, WhatMayBeLeftOutIsEmpty) {
  const ChatTemplate chat =
      read(R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<e>"}}})");
  EXPECT_EQ(chat.start, "");
  EXPECT_FALSE(chat.trims);
  EXPECT_EQ(chat.roles.at(kAssistant), (ChatRole{.before = "", .end = "<e>", .after = ""}));
}

TEST_F(ChatTemplateFile, BadOnesAreRefused) {
  struct Case {
    const char* text;
    const char* complaint;
  };
  const Case cases[] = {
      {"{}", "field 'name' is missing"},
      {R"({"name": "n"})", "field 'tokens' is missing"},
      {R"({"name": "n", "tokens": [""]})", "field 'tokens[0]' is empty"},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {}})", "field 'roles.assistant' is missing"},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<f>"}}})",
       "field 'roles.assistant.end' must end with one of \"tokens\""},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"End": "<e>"}}})",
       "field 'roles.assistant.End' is unknown; known are before, end, after"},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<e>"}}, "trim": 1})",
       "field 'trim' must be true or false"},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<e>"}}, "bos": "x"})",
       "field 'bos' is unknown"},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<e>"}},
          "tools": {"role": "system"}})",
       "field 'tools.role' is not one of \"roles\""},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<e>"}, "user": {}},
          "tools": {"role": "user", "system": "x"}})",
       "field 'tools.system' needs the role \"system\""},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<e>"}},
          "tools": {"role": "tool"}})",
       "field 'tools.role' must be \"system\" or \"user\""},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<e>"}, "user": {}},
          "tools": {"role": "user", "indent": 17}})",
       "field 'tools.indent' must be at most 16"},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<e>"}},
          "calls": {"multiple": true}})",
       "field 'calls.multiple' is unknown"},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<e>"}, "user": {},
          "system": {"into": "second"}}})",
       "field 'roles.system.into' must be \"first\" or \"last\""},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<e>"},
          "user": {"into": "last"}}})",
       "field 'roles.user.into' is for the role \"system\" alone"},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<e>"},
          "system": {"into": "last"}}})",
       "field 'roles.system.into' needs the role \"user\""},
      {R"({"name": "n", "tokens": ["<e>"], "roles": {"assistant": {"end": "<e>"}, "user": {},
          "system": {"into": "last"}}, "tools": {"role": "user"}})",
       "field 'roles.system.into' cannot stand beside \"tools\""},
  };
  for (const Case& c : cases)
    EXPECT_THAT([&] { (void)read(c.text); }, fails_with({"t.json", c.complaint, "docs/data.md"}))
        << c.text;
  EXPECT_THAT([] { (void)find_chat_template("chatlm"); },
              fails_with({"--chat chatlm", "llama-3", "chatml'"}));
}

}  // namespace
}  // namespace dos::data::chat_encoder_test

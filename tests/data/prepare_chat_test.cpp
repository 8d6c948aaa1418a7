// SPDX-License-Identifier: Apache-2.0
// Conversations from JSON-lines to samples.
#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/random.hpp"
#include "data/chat/best_fit.hpp"
#include "data/chat/chat_encoder.hpp"
#include "data/chat_reference.hpp"
#include "data/files.hpp"
#include "data/loader.hpp"
#include "data/prepare.hpp"
#include "data/sources.hpp"
#include "data/text_input.hpp"
#include "data/verification.hpp"
#include "scratch_directory.hpp"

namespace dos::data::prepare_chat_test {
namespace {

using nlohmann::json;
using test::fails_with;
using Tokens = std::vector<std::int32_t>;

/// A conversation of two turns, a line.
std::string chat_line(const std::string& question, const std::string& answer) {
  return json{{"messages",
               {{{"role", "user"}, {"content", question}},
                {{"role", "assistant"}, {"content", answer}}}}}
             .dump() +
         "\n";
}

class PrepareChat : public testing::Test {
 protected:
  PrepareChat() {
    config_.tokenizer = test::tokenizer_reference() / "qwen.json";
    config_.chat = "chatml";
    config_.output = scratch_ / "set";
    config_.val_fraction = 0.25;
  }
  PrepareSummary run(const std::string& lines) {
    write_durably(scratch_ / "chats.jsonl", lines);
    config_.inputs = {scratch_ / "chats.jsonl"};
    return prepare(config_, [](const std::string&) {});
  }
  [[nodiscard]] std::string prefix() const { return (scratch_ / "set").string(); }
  /// Tokens of a split; those that do not count are negative.
  [[nodiscard]] static Tokens elements(const TokenFile& tokens, const MaskFile& mask) {
    Tokens all = test::tokens_of(tokens);
    mask.apply(0, all);
    return all;
  }

  test::ScratchDirectory scratch_;
  PrepareConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_ = test::reference_tokenizer("qwen");
  ChatTemplate chat_ = find_chat_template("chatml");
  ChatEncoder encoder_{*tokenizer_, chat_};
};

TEST_F(PrepareChat, SaysThatNobodyAnswers) {
  const std::string unanswered = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n";
  const std::string all = unanswered + unanswered + unanswered + unanswered;
  const std::string good = chat_line("one", "eins");
  EXPECT_THAT(
      [&] { run(all); },
      fails_with({"chats.jsonl: none of the 4 conversations has an answer, all are left out",
                  "messages of the assistant"}));
  config_.context = 4;
  EXPECT_THAT([&] { run(good + good + good); },
              fails_with({"none of the 3 conversations has an answer in its first 4 tokens",
                          "raise --context"}));
  config_.context = 0;
  EXPECT_THAT([&] { run(all + good); },
              fails_with({"chats.jsonl: no conversation of the training part has an answer, 4 are "
                          "left out: all answers are in the validation part",
                          "--val-fraction"}));
  config_.val_fraction = 0.1;  // less than the last line
  EXPECT_THAT([&] { run(good + good + good + unanswered); },
              fails_with({"no conversation of the validation part has an answer, 1 are left out"}));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "set_train.bin"));
}

TEST_F(PrepareChat, NamesADamagedLineBeforeItAsksForMoreText) {
  EXPECT_THAT([&] { run(chat_line("one", "eins") + "{"); },
              fails_with({"chats.jsonl:2: the line"}));
  EXPECT_THAT([&] { run(chat_line("one", "eins")); },
              fails_with({"chats.jsonl: the input is too short to split"}));
}

TEST_F(PrepareChat, AStreamIsTheConversationsWithAnEndBehindEach) {
  const std::vector<std::string> lines{chat_line("one", "eins"), chat_line("two", "zwei"),
                                       chat_line("three", "drei"), chat_line("four", "vier")};
  config_.val_fraction = 0.1;  // less than the last line
  const std::string unanswered = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n";
  const PrepareSummary summary = run(lines[0] + "\n" + lines[1] + unanswered + lines[2] + lines[3]);
  const Dataset set = open_dataset(prefix());
  const auto expected = [&](std::size_t first, std::size_t last) {
    Tokens all;
    for (std::size_t i = first; i < last; ++i) {
      const Tokens more = encoder_.encode_line(lines[i]);
      all.insert(all.end(), more.begin(), more.end());
      all.push_back(-1 - tokenizer_->end_of_text());
    }
    return all;
  };
  EXPECT_EQ(elements(set.train, *set.train_mask), expected(0, 3));
  EXPECT_EQ(elements(set.val, *set.val_mask), expected(3, 4));
  EXPECT_EQ(summary.chat->conversations, 4);
  EXPECT_EQ(summary.chat->left_out, 1);
  EXPECT_EQ(summary.chat->windows, 0);
  ASSERT_TRUE(set.manifest->chat);
  EXPECT_EQ(set.manifest->chat->chat_template, chat_);
  EXPECT_EQ(set.manifest->chat->context, 0);
  EXPECT_EQ(set.manifest->train_mask, set.train_mask->check({}));
  EXPECT_EQ(set.manifest->val_mask, set.val_mask->check({}));
  EXPECT_EQ(to_text(read_manifest(scratch_ / "set.json")), to_text(*set.manifest));
}

TEST_F(PrepareChat, WindowsHoldWholeConversations) {
  constexpr Index kContext = 48;
  const Philox random(3);
  std::string lines;
  for (std::uint64_t i = 0; i < 200; ++i)
    lines += chat_line("q" + std::string(static_cast<std::size_t>(random.uniform(2 * i) * 30), 'x'),
                       std::string(static_cast<std::size_t>(random.uniform(2 * i + 1) * 60), 'y'));
  config_.context = kContext;
  const PrepareSummary summary = run(lines);
  const Dataset set = open_dataset(prefix());
  EXPECT_EQ(set.manifest->chat->context, kContext);
  const Tokens all = elements(set.train, *set.train_mask);
  ASSERT_EQ(std::ssize(all) % kContext, 1);
  EXPECT_EQ(all.back(), -1 - tokenizer_->end_of_text());
  // Every window starts with a conversation, and all of the conversations are there.
  std::vector<Tokens> found;
  const std::int32_t start = -1 - tokenizer_->added_token("<|im_start|>").value();
  for (std::size_t first = 0; first + 1 < all.size(); first += kContext) {
    ASSERT_EQ(all[first], start);
    Tokens one;
    for (std::size_t i = first; i < first + kContext; ++i) {
      if (all[i] == -1 - tokenizer_->end_of_text()) {
        if (!one.empty()) found.push_back(std::exchange(one, {}));
      } else {
        one.push_back(all[i]);
      }
    }
    if (!one.empty()) found.push_back(one);
  }
  std::vector<Tokens> expected;
  Index cut = 0;
  std::string_view rest = lines;
  rest = rest.substr(0, rest.substr(0, rest.size() * 3 / 4).rfind('\n') + 1);
  while (const auto line = TextInput::next_line(rest)) {
    Tokens one = encoder_.encode_line(*line);
    if (std::ssize(one) > kContext) ++cut;
    one.resize(std::min(one.size(), std::size_t{kContext}));
    if (std::ranges::any_of(one, [](auto element) { return element >= 0; }))
      expected.push_back(std::move(one));
  }
  EXPECT_GT(cut, 3);
  EXPECT_GE(summary.chat->cut, cut);
  std::ranges::sort(found);
  std::ranges::sort(expected);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(summary.chat->conversations + summary.chat->left_out, 200);
  // A sample is a window; another context would cut conversations.
  const auto open = [&](Index context) {
    return open_split(set, Split::kTrain, {.context = context, .vocabulary = 5000});
  };
  EXPECT_EQ(open(kContext).windows(), std::ssize(all) / kContext);
  EXPECT_THAT([&] { (void)open(kContext / 2); },
              fails_with({"windows of 48 tokens", "model.context=24", "--context 24"}));
}

TEST_F(PrepareChat, ConversationsWithoutAnAnswerInTheirWindowAreLeftOut) {
  config_.context = 16;
  const std::string longer(300, 'q');
  const PrepareSummary summary = run(chat_line("a", "b") + chat_line(longer, "c") +
                                     chat_line("d", longer) + chat_line("e", "f"));
  EXPECT_EQ(summary.chat->conversations, 3);
  EXPECT_EQ(summary.chat->left_out, 1);
  EXPECT_EQ(summary.chat->cut, 1);
}

TEST_F(PrepareChat, ThreadsDoNotMatter) {
  std::string lines;
  for (int i = 0; i < 3000; ++i)
    lines += chat_line("question " + std::to_string(i),
                       std::string(static_cast<std::size_t>(i) % 90, 'z'));
  config_.context = 64;
  std::vector<std::string> made;
  for (const Index threads : {1, 5}) {
    config_.threads = threads;
    run(lines);
    made.push_back(read_text(prefix() + "_train.bin") + read_text(prefix() + "_train.mask") +
                   read_text(prefix() + "_val.mask"));
  }
  EXPECT_TRUE(made[0] == made[1]);
}

TEST_F(PrepareChat, BadLinesAreNamed) {
  const std::string good = chat_line("a", "b");
  EXPECT_THAT([&] { run(good + good + "{\"text\": 1}\n" + good + good); },
              fails_with({"chats.jsonl:3: the line: field 'messages' is missing"}));
  EXPECT_THAT(
      [&] { run(good + R"({"messages": [{"role": "critic", "content": ""}]})" + "\n" + good); },
      fails_with(
          {"chats.jsonl:2: message 1 has the role 'critic'", "assistant, system, tool, user"}));
  EXPECT_TRUE(test::names_in(scratch_.path()) == std::vector<std::string>{"chats.jsonl"});
}

TEST_F(PrepareChat, OptionsThatDoNotFitAreRefused) {
  const std::string lines = chat_line("a", "b") + chat_line("a", "b");
  config_.field = "text";
  EXPECT_THAT([&] { run(lines); }, fails_with({"--chat reads conversations; drop --field text"}));
  config_.field.clear();
  config_.context = 1;
  EXPECT_THAT([&] { run(lines); }, fails_with({"--context 1: must be at least 2"}));
  config_.chat.clear();
  EXPECT_THAT([&] { run(lines); }, fails_with({"--context", "add --chat"}));
  config_.context = 0;
  config_.chat = "chatml";
  config_.tokenizer = "bytes";
  EXPECT_THAT([&] { run(lines); }, fails_with({"needs a tokenizer.json or a SentencePiece model"}));
  config_.tokenizer = "sentencepiece";
  config_.vocab_size = 300;
  EXPECT_THAT([&] { run(lines); },
              fails_with({"--vocab-size trains a model on text", "--tokenizer"}));
}

TEST_F(PrepareChat, AMaskThatDoesNotBelongToTheTokensIsFound) {
  const auto lines = chat_line("one", "eins") + chat_line("two", "zwei") + chat_line("3", "drei");
  run(lines);
  const std::string mask = prefix() + "_train.mask";
  const std::string good = read_text(mask);
  const auto fault = [&] {
    const Verification verification(open_sources({{.prefix = prefix()}}), 5000);
    EXPECT_TRUE(verification.wait_for(std::chrono::minutes(1)));
    return verification.fault().value_or("");
  };
  EXPECT_EQ(fault(), "");
  std::string bad = good;
  bad[17] = static_cast<char>(bad[17] ^ 4);
  write_durably(mask, bad);
  EXPECT_THAT(fault(), testing::AllOf(testing::HasSubstr(mask + ": its bits have checksum"),
                                      testing::HasSubstr("is damaged or another one")));
  std::filesystem::copy_file(prefix() + "_val.mask", mask,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT([&] { (void)open_dataset(prefix()); },
              fails_with({mask + ": says of", "set_train.bin holds"}));
  std::filesystem::remove(mask);
  EXPECT_THAT([&] { (void)open_dataset(prefix()); }, fails_with({mask + ": missing"}));
  write_durably(mask, good);
  std::filesystem::remove(prefix() + ".json");
  EXPECT_THAT([&] { (void)open_dataset(prefix()); }, fails_with({mask, "does not speak of it"}));
  // Text in the same place takes the masks away.
  config_.chat.clear();
  config_.field = "messages";
  EXPECT_THAT([&] { run(lines); }, fails_with({"must be a string"}));
  config_.field.clear();
  config_.inputs = {test::tokenizer_reference() / "text.txt"};
  (void)prepare(config_, [](const std::string&) {});
  EXPECT_FALSE(open_dataset(prefix()).train_mask);
}

TEST_F(PrepareChat, SourcesOfSeveralTemplatesAreRefused) {
  const auto lines = chat_line("one", "eins") + chat_line("two", "zwei");
  run(lines);
  json other = to_json(chat_);
  other["name"] = "other";
  write_durably(scratch_ / "other.json", other.dump());
  config_.chat = scratch_ / "other.json";
  config_.output = scratch_ / "more";
  run(lines);
  const std::string more = scratch_ / "more";
  EXPECT_THAT(
      [&] {
        (void)open_sources({{.prefix = prefix()}, {.prefix = more}});
      },
      fails_with({more, "another chat template", "'other'"}));
}

TEST(BestFit, FillsWindows) {
  EXPECT_TRUE(best_fit({}, 5).empty());
  const std::vector<Index> lengths{3, 5, 2, 4, 1, 2, 3};
  // 5 | 4 1 | 3 2 | 3 2: each item goes where least is left.
  const std::vector<std::vector<Index>> expected{{1}, {3, 4}, {0, 2}, {6, 5}};
  EXPECT_EQ(best_fit(lengths, 5), expected);
}

TEST(BestFit, EveryItemLiesInOneWindow) {
  const Philox random(9);
  for (std::uint64_t run = 0; run < 30; ++run) {
    const auto count = static_cast<std::size_t>(random.uniform(run) * 300);
    const Index room = 1 + static_cast<Index>(random.uniform(run + 100) * 64);
    std::vector<Index> lengths;
    Index sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      lengths.push_back(1 + static_cast<Index>(random.uniform(1000 * (run + 1) + i) *
                                               static_cast<double>(room - 1)));
      sum += lengths.back();
    }
    std::vector<int> seen(count, 0);
    Index used_twice = 0;
    const auto windows = best_fit(lengths, room);
    for (const auto& window : windows) {
      Index used = 0;
      for (const Index item : window) {
        ++seen[static_cast<std::size_t>(item)];
        used += lengths[static_cast<std::size_t>(item)];
      }
      ASSERT_LE(used, room);
      ASSERT_FALSE(window.empty());
      used_twice += 2 * used;
    }
    EXPECT_EQ(std::ranges::count(seen, 1), std::ssize(seen));
    // No two windows could be one, so all but one are more than half full on average.
    EXPECT_GE(used_twice, (std::ssize(windows) - 1) * room);
    EXPECT_EQ(used_twice, 2 * sum);
  }
}

}  // namespace
}  // namespace dos::data::prepare_chat_test

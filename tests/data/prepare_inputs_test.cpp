// SPDX-License-Identifier: Apache-2.0
// What prepare() reads: tokenizer.json, JSON-lines; and that threads do not matter.
#include <fstream>

#include "data/corpus.hpp"
#include "data/dataset.hpp"
#include "data/files.hpp"
#include "data/prepare.hpp"
#include "data/text_input.hpp"
#include "data/tokenizer_of.hpp"
#include "data/tokenizer_reference.hpp"
#include "scratch_directory.hpp"

namespace dos::data::prepare_inputs_test {
namespace {

using test::fails_with;
using Tokens = std::vector<std::int32_t>;

class PrepareInputs : public testing::Test {
 protected:
  std::filesystem::path input(const std::string& name, const std::string& text) const {
    write_durably(scratch_ / name, text);
    return scratch_ / name;
  }
  [[nodiscard]] PrepareConfig config(const std::string& tokenizer,
                                     const std::filesystem::path& file) const {
    PrepareConfig result;
    result.tokenizer = tokenizer;
    result.output = scratch_ / "set";
    result.inputs = {file};
    result.threads = 2;
    return result;
  }
  [[nodiscard]] static std::string reference(const char* name) {
    return (test::tokenizer_reference() / name).string();
  }
  static PrepareSummary run(const PrepareConfig& config) {
    return prepare(config, [](const std::string&) {});
  }
  [[nodiscard]] Tokens tokens(const char* split) const {
    const Dataset dataset = open_dataset(scratch_ / "set");
    return test::tokens_of(std::string(split) == "train" ? dataset.train : dataset.val);
  }

  test::ScratchDirectory scratch_;
};

TEST_F(PrepareInputs, ATokenizerJsonGivesTheTokensOfTheWholeText) {
  std::string text = read_text(test::tokenizer_reference() / "text.txt");
  text += text + text;
  for (const char* name : {"gpt2", "llama3", "qwen"}) {
    const auto tokenizer = test::reference_tokenizer(name);
    (void)run(config(reference((std::string(name) + ".json").c_str()), input("in.txt", text)));
    const auto cut = static_cast<std::size_t>(split_position(text, 0.1));
    for (const auto& [split, part] :
         {std::pair("train", text.substr(0, cut)), std::pair("val", text.substr(cut))}) {
      const auto begin = tokenizer->begin_of_text();
      Tokens expected(begin.begin(), begin.end());
      const Tokens of_text = tokenizer->encode(part);
      expected.insert(expected.end(), of_text.begin(), of_text.end());
      expected.push_back(tokenizer->end_of_text());
      EXPECT_TRUE(tokens(split) == expected) << name << " " << split;
    }
  }
}

TEST_F(PrepareInputs, TheDatasetKeepsItsTokenizer) {
  auto wanted = config(reference("qwen.json"), input("in.txt", test::corpus()));
  wanted.end_of_text = "<|im_end|>";
  (void)run(wanted);
  const auto tokenizer = test::tokenizer_of(scratch_ / "set");
  EXPECT_EQ(tokenizer->kind(), "tokenizer.json");
  EXPECT_EQ(tokenizer->encode("<|im_end|>"), Tokens{tokenizer->end_of_text()});
  EXPECT_EQ(tokens("train").back(), tokenizer->end_of_text());
  EXPECT_EQ(open_dataset(scratch_ / "set").manifest->model_file, "set.model");
}

TEST_F(PrepareInputs, AnEndOutsideTheVocabularyIsRefused) {
  (void)run(config(reference("qwen.json"), input("in.txt", test::corpus())));
  std::string text = read_text(scratch_ / "set.json");
  const std::string entry = "\"end_of_text\": ";
  text.insert(text.find(entry) + entry.size(), "9");
  write_durably(scratch_ / "set.json", text);
  EXPECT_THAT([&] { (void)test::tokenizer_of(scratch_ / "set"); },
              fails_with({"set.json", "'end_of_text' is 9", "outside the vocabulary"}));
}

TEST_F(PrepareInputs, EveryLineIsADocument) {
  const auto file = input("in.jsonl",
                          "{\"text\": \"one\\n\", \"id\": 1}\n\n{\"text\": \"\"}\r\n"
                          "{\"id\": 2, \"text\": \"zw\\u00f6lf\"}\n{\"text\": \"last\"}");
  auto wanted = config("bytes", file);
  wanted.val_fraction = 0.15;
  const PrepareSummary summary = run(wanted);
  const Tokens train{'o', 'n', 'e', '\n', 256, 'z', 'w', 0xC3, 0xB6, 'l', 'f', 256};
  EXPECT_EQ(tokens("train"), train);
  EXPECT_EQ(tokens("val"), (Tokens{'l', 'a', 's', 't', 256}));
  EXPECT_EQ(summary.train_tokens, 12);
}

TEST_F(PrepareInputs, AnotherFieldMakesAnyFileJsonLines) {
  auto wanted = config("bytes", input("in.txt", "{\"content\": \"a\"}\n{\"content\": \"b\"}\n"));
  wanted.field = "content";
  wanted.val_fraction = 0.5;
  (void)run(wanted);
  EXPECT_EQ(tokens("train"), (Tokens{'a', 256}));
  EXPECT_EQ(tokens("val"), (Tokens{'b', 256}));
}

TEST_F(PrepareInputs, BadLinesAreNamed) {
  struct Case {
    std::string line;
    std::string complaint;
  };
  const Case cases[] = {
      {"{\"text\": 3}", "field 'text' must be a string"},
      {"{\"txt\": \"a\"}", "field 'text' is missing"},
      {"[1]", "not a JSON object"},
      {"{\"text\": \"a\"", "not JSON"},
      {"plain", "not JSON"},
      {"{\"text\": \"\\ud800\"}", "not JSON"},
  };
  for (const Case& c : cases) {
    std::string text;
    for (int i = 0; i < 20; ++i) text += "{\"text\": \"good\"}\n";
    const auto file = input("in.jsonl", text + c.line + "\n" + text);
    EXPECT_THAT([&] { (void)run(config("bytes", file)); },
                fails_with({"in.jsonl:21: ", c.complaint, "--field"}))
        << c.line;
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "set.json"));
  }
}

TEST_F(PrepareInputs, ThreadsDoNotMatter) {
  std::string lines;
  for (std::size_t i = 0; i < 30'000; ++i)
    lines += fmt::format("{{\"text\": \"document {} says {}\"}}\n", i, std::string(i % 100, 'x'));
  const auto json_lines = input("in.jsonl", lines);
  std::string text;
  for (int i = 0; i < 8; ++i) text += read_text(test::tokenizer_reference() / "text.txt");
  const auto plain = input("in.txt", text);
  for (const char* tokenizer : {"qwen.json", "options.json"}) {
    std::vector<std::string> made;
    for (const Index threads : {1, 2, 7}) {
      auto wanted = config(reference(tokenizer), json_lines);
      wanted.inputs.push_back(plain);
      wanted.threads = threads;
      (void)run(wanted);
      made.push_back(read_text(scratch_ / "set_train.bin") + read_text(scratch_ / "set_val.bin"));
    }
    EXPECT_TRUE(made[0] == made[1]);
    EXPECT_TRUE(made[0] == made[2]);
  }
}

TEST_F(PrepareInputs, OptionsThatContradictAreRefused) {
  const auto file = input("in.txt", test::corpus());
  auto wanted = config(reference("gpt2.json"), file);
  wanted.vocab_size = 300;
  EXPECT_THAT([&] { (void)run(wanted); }, fails_with({"gpt2.json has a fixed vocabulary"}));
  wanted = config("bytes", file);
  wanted.end_of_text = "x";
  EXPECT_THAT([&] { (void)run(wanted); },
              fails_with({"--end-of-text belongs to a tokenizer.json"}));
  wanted = config("bytes", file);
  wanted.threads = -1;
  EXPECT_THAT([&] { (void)run(wanted); }, fails_with({"--threads -1: must lie between 0"}));
  wanted = config(reference("none.json"), file);
  EXPECT_THAT([&] { (void)run(wanted); }, fails_with({"none.json: unknown, and no such file"}));
  wanted = config(scratch_.path().string(), file);
  EXPECT_THAT([&] { (void)run(wanted); }, fails_with({"tokenizer.json: does not exist; name"}));
  wanted = config(reference("expected.json"), file);
  EXPECT_THAT([&] { (void)run(wanted); }, fails_with({"expected.json: field 'model' is missing"}));
}

TEST_F(PrepareInputs, ATokenizerIsNotOverwritten) {
  std::filesystem::copy_file(reference("gpt2.json"), scratch_ / "set.json");
  const auto wanted = config((scratch_ / "set.json").string(), input("in.txt", test::corpus()));
  EXPECT_THAT([&] { (void)run(wanted); },
              fails_with({"set.json: is an input and would be overwritten"}));
}

// Latin-1, as many old texts are. Bytes are bytes, and JSON must be UTF-8.
TEST_F(PrepareInputs, TextThatIsNotUtf8GetsAWarning) {
  const auto warnings = [&](const std::string& tokenizer, const std::filesystem::path& file) {
    std::string text;
    (void)prepare(config(tokenizer, file), [&](const std::string& line) {
      if (line.starts_with("warning: ")) text += line;
    });
    return text;
  };
  const std::string good = "Caf\xC3\xA9 au lait\n";
  const auto latin = input("latin.txt", good + good + "Caf\xE9 au lait\n" + good + good);
  EXPECT_THAT(warnings(reference("gpt2.json"), latin),
              testing::HasSubstr("latin.txt:3: not UTF-8"));
  EXPECT_EQ(warnings(kBytes, latin), "");
  EXPECT_EQ(warnings(reference("gpt2.json"), input("good.txt", good + good + good)), "");
  // Half a character at the very end.
  EXPECT_THAT(warnings(reference("gpt2.json"), input("cut.txt", good + good + good + "\xC3")),
              testing::HasSubstr("cut.txt:4: not UTF-8"));
  const auto lines = input("latin.jsonl", "{\"text\": \"Caf\xE9\"}\n{\"text\": \"Cafe\"}\n");
  EXPECT_THAT([&] { (void)run(config(reference("gpt2.json"), lines)); },
              fails_with({"latin.jsonl:1"}));
}

}  // namespace
}  // namespace dos::data::prepare_inputs_test

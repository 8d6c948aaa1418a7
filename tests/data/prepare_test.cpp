// SPDX-License-Identifier: Apache-2.0
#include "data/prepare.hpp"

#include <sys/stat.h>

#include <cmath>
#include <map>

#include "data/corpus.hpp"
#include "data/dataset.hpp"
#include "data/files.hpp"
#include "data/output_lock.hpp"
#include "data/text_input.hpp"
#include "data/tokenizer_of.hpp"
#include "file_size_limit.hpp"
#include "scratch_directory.hpp"

namespace dos::data::prepare_test {
namespace {

using test::fails_with;
using testing::ElementsAre;
using testing::HasSubstr;

class PrepareTest : public testing::Test {
 protected:
  PrepareTest() { std::filesystem::create_directory(output_); }

  std::filesystem::path input(const std::string& name, const std::string& text) const {
    write_durably(scratch_ / name, text);
    return scratch_ / name;
  }
  [[nodiscard]] PrepareConfig bytes(const std::vector<std::filesystem::path>& inputs) const {
    PrepareConfig config;
    config.tokenizer = "bytes";
    config.output = output_ / "set";
    config.inputs = inputs;
    return config;
  }
  [[nodiscard]] PrepareConfig pieces(const std::filesystem::path& file, Index vocab_size) const {
    PrepareConfig config = bytes({file});
    config.tokenizer = "sentencepiece";
    config.vocab_size = vocab_size;
    return config;
  }
  PrepareSummary run(const PrepareConfig& config) {
    return prepare(config, [this](const std::string& line) { lines_.push_back(line); });
  }
  void expect_refused(const PrepareConfig& config, const std::vector<std::string>& parts) {
    EXPECT_THAT([&] { (void)run(config); }, fails_with(parts));
    EXPECT_THAT(test::names_in(output_), testing::IsEmpty());
  }
  [[nodiscard]] std::string decoded(const TokenFile& file) const {
    return test::tokenizer_of(output_ / "set")->decode(test::tokens_of(file));
  }

  test::ScratchDirectory scratch_;
  std::filesystem::path output_ = scratch_ / "out";
  std::vector<std::string> lines_;
};

TEST_F(PrepareTest, EveryFileGivesItsTailToValidation) {
  auto config = bytes({input("a.txt", "one\ntwo\nthree\nfour\n"), input("b.txt", "12345678")});
  config.val_fraction = 0.25;
  const PrepareSummary summary = run(config);
  EXPECT_THAT(test::names_in(output_), ElementsAre("set.json", "set_train.bin", "set_val.bin"));
  const Dataset dataset = open_dataset(output_ / "set");
  EXPECT_EQ(decoded(dataset.train), "one\ntwo\nthree\n123456");
  EXPECT_EQ(decoded(dataset.val), "four\n78");
  const auto train = test::tokens_of(dataset.train);
  EXPECT_EQ(train[14], 256);  // end of text, behind each part
  EXPECT_EQ(train.back(), 256);
  EXPECT_EQ(std::ranges::count(train, 256), 2);
  EXPECT_EQ(summary.bytes, 27);
  EXPECT_EQ(summary.vocabulary, 257);
  EXPECT_EQ(summary.train_tokens, dataset.train.size());
  EXPECT_EQ(summary.val_tokens, dataset.val.size());
  ASSERT_EQ(dataset.manifest->sources.size(), 2U);
  EXPECT_EQ(dataset.manifest->sources[1].path, config.inputs[1].string());
  EXPECT_EQ(dataset.manifest->sources[1].bytes, 8);
  EXPECT_EQ(dataset.manifest->train_sums, dataset.train.check(257, {}));
  EXPECT_EQ(dataset.manifest->val_sums, dataset.val.check(257, {}));
  EXPECT_EQ(dataset.manifest->val_sums->largest, 256);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("a.txt: 19 B, 21 tokens"), HasSubstr("b.txt")));
}

TEST_F(PrepareTest, SplitsAtLinesElseAtCharacters) {
  struct Case {
    std::string text;
    double fraction;
    Index position;
  };
  const Case cases[] = {
      {"a", 0.1, 0},
      {"ab", 0.1, 1},
      {"abcdefghij", 0.1, 9},
      {"abcdefgh\nj", 0.1, 9},
      {"a\ncdefghij", 0.1, 9},  // the line starts too far away
      {"abcdef\nhij", 0.3, 7},
      {"abcde\nghij", 0.3, 6},
      {"abcd\nfghij", 0.3, 7},
      {"abcdefgh\xC3\xA9", 0.1, 8},
      {"\xF0\x9F\x98\x80", 0.5, 0},
  };
  for (const Case& c : cases) EXPECT_EQ(split_position(c.text, c.fraction), c.position) << c.text;
}

TEST_F(PrepareTest, FilesTooShortToSplitGoToOneSide) {
  (void)run(bytes({input("a.txt", "x"), input("b.txt", "0123456789")}));
  const Dataset dataset = open_dataset(output_ / "set");
  EXPECT_EQ(decoded(dataset.train), "012345678");
  EXPECT_EQ(decoded(dataset.val), "x9");
  EXPECT_EQ(dataset.train.size(), 10);
}

TEST_F(PrepareTest, TrainsATokenizerOnTheTrainingPart) {
  const std::string text = test::corpus();
  const auto file = input("a.txt", text);
  EXPECT_EQ(run(pieces(file, 350)).vocabulary, 350);
  EXPECT_THAT(test::names_in(output_),
              ElementsAre("set.json", "set.model", "set_train.bin", "set_val.bin"));
  const Dataset dataset = open_dataset(output_ / "set");
  EXPECT_EQ(decoded(dataset.train) + decoded(dataset.val), text);
  const std::string model = read_text(output_ / "set.model");

  const auto same_head = static_cast<std::size_t>(split_position(text, 0.1));
  std::string other = text.substr(0, same_head) + std::string(text.size() - same_head, '#');
  (void)run(pieces(input("a.txt", other), 350));
  EXPECT_EQ(read_text(output_ / "set.model"), model);
}

TEST_F(PrepareTest, IsDeterministicAndReplacesAnEarlierRun) {
  const auto file = input("a.txt", test::corpus());
  const auto contents = [&] {
    std::string all;
    for (const auto& name : test::names_in(output_)) all += name + read_text(output_ / name);
    return all;
  };
  (void)run(pieces(file, 350));
  const std::string first = contents();
  (void)run(bytes({file}));
  EXPECT_EQ(test::tokenizer_of(output_ / "set")->kind(), "bytes");
  (void)run(pieces(file, 350));
  EXPECT_EQ(contents(), first);
}

TEST_F(PrepareTest, UsesAGivenModelEvenInPlace) {
  const auto file = input("a.txt", test::corpus());
  (void)run(pieces(file, 350));
  PrepareConfig config = pieces(input("b.txt", test::corpus(50)), 0);
  config.model = output_ / "set.model";
  EXPECT_EQ(run(config).vocabulary, 350);
  EXPECT_EQ(open_dataset(output_ / "set").manifest->model_hash,
            hash_of(read_text(output_ / "set.model")));
}

TEST_F(PrepareTest, LongTextIsEncodedInParts) {
  // 300 KB without a newline and with three-byte characters: parts end inside no character.
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "\xE2\x82\xAC";
  const auto file = input("a.txt", test::corpus() + text);
  (void)run(pieces(file, 350));
  const Dataset dataset = open_dataset(output_ / "set");
  EXPECT_EQ(decoded(dataset.train) + decoded(dataset.val), test::corpus() + text);
}

TEST_F(PrepareTest, RefusesBadInput) {
  const auto good = input("a.txt", test::corpus());
  expect_refused(bytes({good, scratch_ / "none.txt"}), {"none.txt: cannot open: No such file"});
  expect_refused(bytes({good, input("empty.txt", "")}), {"empty.txt: empty file; leave it out"});
  expect_refused(bytes({good, input("a.txt.gz", "\x1F\x8B\b and more")}),
                 {"a.txt.gz: is compressed (gzip) and no text: decompress it first"});
  expect_refused(bytes({good, scratch_.path()}), {"not a regular file"});
  expect_refused(bytes({input("one.txt", "x")}), {"too short to split"});
  expect_refused(bytes({}), {"no input"});
}

TEST_F(PrepareTest, RefusesToOverwriteAnInput) {
  for (const char* name : {"set.json", "set_train.bin", "set_val.bin", "set.model"}) {
    const auto file = input(std::string("out/") + name, test::corpus());
    for (const bool by_link : {false, true}) {
      const auto named = by_link ? scratch_ / "link" : file;
      if (by_link) std::filesystem::create_symlink(file, named);
      EXPECT_THAT([&] { (void)run(pieces(named, 350)); },
                  fails_with({named.string() + ": is an input and would be overwritten by " +
                              file.string()}));
      EXPECT_EQ(read_text(file), test::corpus());
      EXPECT_THAT(test::names_in(output_), ElementsAre(name));
    }
    std::filesystem::remove(scratch_ / "link");
    std::filesystem::remove(file);
  }
  // The bytes tokenizer writes no model, and a model may be used in place, but not as tokens.
  (void)run(bytes({input("out/set.model", test::corpus())}));
  PrepareConfig config = pieces(input("a.txt", test::corpus()), 0);
  config.model = output_ / "set_val.bin";
  EXPECT_THAT([&] { (void)run(config); }, fails_with({"is an input and would be overwritten"}));
}

TEST_F(PrepareTest, DoesNotWaitForAPipe) {
  ASSERT_EQ(::mkfifo((scratch_ / "pipe").c_str(), 0600), 0);
  expect_refused(bytes({scratch_ / "pipe"}), {"pipe: not a regular file"});
}

TEST_F(PrepareTest, NamesThatAreNotUtf8) {
  PrepareConfig config = pieces(input("a.txt", test::corpus()), 350);
  config.output = output_ / "caf\xE9";
  expect_refused(config, {"--output ", "its name is not UTF-8"});
  config = bytes({input("caf\xE9.txt", test::corpus())});
  config.output = output_ / "caf\xE9";
  (void)run(config);
  EXPECT_EQ(open_dataset(config.output).manifest->tokenizer, "bytes");
}

TEST_F(PrepareTest, RefusesBadOptions) {
  const auto good = input("a.txt", test::corpus());
  PrepareConfig config = bytes({good});
  config.vocab_size = 300;
  expect_refused(config, {"--tokenizer bytes has a fixed vocabulary"});
  expect_refused(pieces(good, 0), {"--vocab-size N", "--model FILE"});
  config = pieces(good, 350);
  config.model = good;
  expect_refused(config, {"use one of the two"});
  config.vocab_size = 0;
  expect_refused(config, {"a.txt: not a SentencePiece model"});
  config.model = scratch_ / "none.model";
  expect_refused(config, {"none.model: cannot open"});
  config = pieces(good, 350);
  config.model_type = "word";
  expect_refused(config, {"--model-type word"});
  config = bytes({good});
  config.tokenizer = "byte";
  expect_refused(config, {"--tokenizer byte: unknown", "did you mean 'bytes'?"});
  for (const double fraction : {0.0, 1.0, -0.5, std::nan("")}) {
    config = bytes({good});
    config.val_fraction = fraction;
    expect_refused(config, {"--val-fraction", "between 0 and 1"});
  }
  expect_refused(pieces(good, 1'000'000), {"--vocab-size 1000000: too large"});
  expect_refused(pieces(good, 100), {"--vocab-size 100: too small"});
}

TEST_F(PrepareTest, RefusesOutputThatCannotBeWritten) {
  PrepareConfig config = bytes({input("a.txt", test::corpus())});
  config.output = scratch_ / "a.txt" / "set";
  expect_refused(config, {"--output: cannot create the folder", "a.txt: "});
  config.output = "/proc/set";
  expect_refused(config, {"--output: cannot create /proc/set.lock: "});
  for (const char* end : {"", ".", ".."}) {
    config.output = output_ / end;
    expect_refused(config, {"is no dataset PREFIX"});
  }
}

TEST_F(PrepareTest, TakesBackWhatIsInPlaceWhenTheLastFileFails) {
  const auto file = input("a.txt", test::corpus());
  for (const char* blocked : {"set_train.bin", "set_val.bin", "set.model", "set.json"}) {
    std::filesystem::create_directory(output_ / blocked);
    EXPECT_THAT([&] { (void)run(pieces(file, 350)); },
                fails_with({blocked, "cannot put in place"}));
    EXPECT_THAT(test::names_in(output_), ElementsAre(blocked));
    std::filesystem::remove(output_ / blocked);
  }
}

TEST_F(PrepareTest, AnEarlierDatasetIsPutBackWhicheverFileFails) {
  const auto file = input("a.txt", test::corpus());
  const auto contents = [&] {
    std::map<std::string, std::string> all;
    for (const auto& name : test::names_in(output_))
      if (std::filesystem::is_regular_file(output_ / name)) all[name] = read_text(output_ / name);
    return all;
  };
  (void)run(pieces(file, 350));
  const auto whole = contents();
  for (const auto& [blocked, text] : whole) {
    std::filesystem::remove(output_ / blocked);
    std::filesystem::create_directory(output_ / blocked);
    const auto before = contents();
    EXPECT_THAT([&] { (void)run(pieces(file, 360)); },
                fails_with({blocked, "cannot put in place"}));
    EXPECT_EQ(contents(), before) << blocked;
    std::filesystem::remove(output_ / blocked);
    write_durably(output_ / blocked, text);
  }
  (void)run(bytes({file}));  // its model is nobody's
  EXPECT_EQ(contents().size(), 4U);
}

TEST_F(PrepareTest, AnEarlierDatasetStaysWhereTheDiskIsFull) {
  const auto small = input("a.txt", "one\ntwo\nthree\nfour\n");
  (void)run(bytes({small}));
  PrepareConfig config = pieces(input("b.txt", test::corpus()), 350);
  config.output = output_ / "other";
  (void)run(config);
  std::filesystem::rename(output_ / "other.model", scratch_ / "m.model");
  config = bytes({small});
  config.tokenizer = scratch_ / "m.model";
  const test::FileSizeLimit limit(4096);  // less than the model has
  ASSERT_GT(std::filesystem::file_size(scratch_ / "m.model"), 4096U);
  EXPECT_THAT([&] { (void)run(config); }, fails_with({"set.model: cannot write"}));
  EXPECT_EQ(open_dataset(output_ / "set").manifest->tokenizer, "bytes");
}

TEST_F(PrepareTest, WhatAKilledProcessLeavesIsNoDataset) {
  (void)run(bytes({input("a.txt", "one\ntwo\nthree\nfour\n")}));
  // As far as the first file, the manifest.
  PrepareConfig config = bytes({input("b.txt", test::corpus())});
  config.output = output_ / "new";
  (void)run(config);
  std::filesystem::rename(output_ / "new.json", output_ / "set.json");
  EXPECT_THAT([&] { (void)open_dataset(output_ / "set"); }, fails_with({"set.json: announces"}));
  std::filesystem::rename(output_ / "new_train.bin", output_ / "set_train.bin");
  EXPECT_THAT([&] { (void)open_dataset(output_ / "set"); },
              fails_with({"set.json: announces", "set_val.bin"}));
}

TEST_F(PrepareTest, OneProcessWritesADataset) {
  const PrepareConfig config = bytes({input("a.txt", test::corpus())});
  {
    const OutputLock lock(config.output);
    EXPECT_THAT([&] { (void)run(config); }, fails_with({"set: another prepare_data writes"}));
  }
  EXPECT_THAT(test::names_in(output_), testing::IsEmpty());
  write_durably(output_ / "set.lock", "");  // of a killed process
  (void)run(config);
  EXPECT_EQ(test::names_in(output_).size(), 3U);
  write_durably(output_ / "set.lock", "mine");
  EXPECT_THAT([&] { (void)run(config); }, fails_with({"set.lock: is there already"}));
  EXPECT_EQ(read_text(output_ / "set.lock"), "mine");
}

TEST_F(PrepareTest, AGivenModelSurvivesAFailureInPlace) {
  const auto file = input("a.txt", test::corpus());
  (void)run(pieces(file, 350));
  std::filesystem::remove(output_ / "set.json");
  std::filesystem::create_directory(output_ / "set.json");
  PrepareConfig config = pieces(file, 0);
  config.model = output_ / "set.model";
  EXPECT_THAT([&] { (void)run(config); }, fails_with({"set.json", "cannot put in place"}));
  EXPECT_THAT(test::names_in(output_),
              ElementsAre("set.json", "set.model", "set_train.bin", "set_val.bin"));
}

TEST_F(PrepareTest, AFailedRunKeepsTheEarlierDataset) {
  const auto file = input("a.txt", test::corpus());
  (void)run(bytes({file}));
  EXPECT_THAT([&] { (void)run(pieces(file, 1'000'000)); }, fails_with({"too large"}));
  EXPECT_EQ(open_dataset(output_ / "set").manifest->tokenizer, "bytes");
  EXPECT_EQ(test::names_in(output_).size(), 3U);
}

}  // namespace
}  // namespace dos::data::prepare_test

// SPDX-License-Identifier: Apache-2.0
#include "data/dataset_manifest.hpp"

#include <fstream>

#include "base/file.hpp"
#include "data/files.hpp"
#include "json_mutations.hpp"
#include "scratch_directory.hpp"

namespace dos::data::dataset_manifest_test {
namespace {

using test::fails_with;

DatasetManifest example() {
  return {.tokenizer = "sentencepiece",
          .vocabulary = 500,
          .train_tokens = 90,
          .val_tokens = 10,
          .train_sums = TokenSums{.largest = 499, .checksum = 0x1234},
          .val_sums = TokenSums{.largest = 0, .checksum = 0x5678},
          .model_file = "a.model",
          .model_bytes = 7,
          .model_hash = "xxh64:0123456789abcdef",
          .sources = {{.path = "in \"put\".txt", .bytes = 300}, {.path = "b", .bytes = 0}}};
}

class ManifestTest : public testing::Test {
 protected:
  [[nodiscard]] DatasetManifest read(const std::string& text) const {
    write_durably(path(), text);
    return read_manifest(path());
  }
  [[nodiscard]] std::filesystem::path path() const { return scratch_ / "a.json"; }
  test::ScratchDirectory scratch_;
};

std::string with(std::string text, const std::string& part, const std::string& replacement) {
  const auto position = text.find(part);
  EXPECT_NE(position, std::string::npos) << part;
  return text.replace(position, part.size(), replacement);
}

TEST_F(ManifestTest, ReadsWhatItWrote) {
  const DatasetManifest manifest = read(to_text(example()));
  EXPECT_EQ(manifest.tokenizer, "sentencepiece");
  EXPECT_EQ(manifest.vocabulary, 500);
  EXPECT_EQ(manifest.train_tokens, 90);
  EXPECT_EQ(manifest.val_tokens, 10);
  EXPECT_EQ(manifest.train_sums, example().train_sums);
  EXPECT_EQ(manifest.val_sums, example().val_sums);
  EXPECT_EQ(manifest.model_file, "a.model");
  EXPECT_EQ(manifest.model_bytes, 7);
  EXPECT_EQ(manifest.model_hash, "xxh64:0123456789abcdef");
  ASSERT_EQ(manifest.sources.size(), 2U);
  EXPECT_EQ(manifest.sources[0].path, "in \"put\".txt");
  EXPECT_EQ(manifest.sources[0].bytes, 300);
  EXPECT_EQ(to_text(manifest), to_text(example()));
}

TEST_F(ManifestTest, Version1HasNoSums) {
  DatasetManifest old = example();
  old.train_sums.reset();
  const DatasetManifest manifest = read(to_text(old));
  EXPECT_EQ(manifest.train_tokens, 90);
  EXPECT_EQ(manifest.train_sums, std::nullopt);
  EXPECT_EQ(manifest.val_sums, std::nullopt);
  EXPECT_THAT(to_text(manifest), testing::HasSubstr("\"version\": 1"));
}

/// With masks and a chat template.
DatasetManifest conversations() {
  DatasetManifest manifest = example();
  manifest.train_mask = {.targets = 90, .checksum = 0x12};
  manifest.val_mask = {.targets = 0, .checksum = 0x34};
  manifest.chat = {.chat_template = find_chat_template("llama-3"), .context = 64};
  return manifest;
}

TEST_F(ManifestTest, StandsDamage) {
  for (const DatasetManifest& manifest : {example(), conversations()})
    test::expect_stands_damage(to_text(manifest), 2000, [&](const std::string& text) {
      std::ofstream(path()) << text;
      read_manifest(path());
    });
}

TEST_F(ManifestTest, ConversationsHaveMasksAndATemplate) {
  EXPECT_THAT(to_text(example()), testing::HasSubstr("\"version\": 2"));
  const std::string good = to_text(conversations());
  EXPECT_THAT(good, testing::HasSubstr("\"version\": 3"));
  const DatasetManifest manifest = read(good);
  EXPECT_EQ(manifest.train_mask, conversations().train_mask);
  EXPECT_EQ(manifest.val_mask, conversations().val_mask);
  EXPECT_EQ(manifest.chat, conversations().chat);
  EXPECT_EQ(to_text(manifest), good);
  struct Case {
    std::string text;
    std::string complaint;
  };
  const Case cases[] = {
      {with(good, "\"targets\": 90", "\"targets\": 91"), "'masks.train.targets' is 91"},
      {with(good, "0000000000000034", "34"), "'masks.val.xxh3' must be 16 hexadecimal"},
      {with(good, "\"context\": 64", "\"context\": 0"), "'context' must be"},
      {with(good, "\"trim\": true", "\"trim\": 1"), "field 'trim' must be true"},
  };
  for (const Case& c : cases)
    EXPECT_THAT([&] { (void)read(c.text); },
                fails_with({path().string(), c.complaint, "prepare_data"}));
}

TEST_F(ManifestTest, BytesHaveNoModel) {
  DatasetManifest bytes = example();
  bytes.tokenizer = "bytes";
  bytes.model_file.clear();
  EXPECT_EQ(to_text(bytes).find("model"), std::string::npos);
  EXPECT_EQ(read(to_text(bytes)).model_file, "");
}

TEST_F(ManifestTest, SourceNamesNeedNotBeUtf8) {
  DatasetManifest manifest = example();
  manifest.sources[0].path = "caf\xE9.txt";
  EXPECT_EQ(read(to_text(manifest)).sources[0].path, "caf\xEF\xBF\xBD.txt");
}

TEST_F(ManifestTest, NamesWhatIsWrong) {
  const std::string good = to_text(example());
  struct Case {
    std::string text;
    std::string complaint;
  };
  const Case cases[] = {
      {"", "not a dataset manifest"},
      {"{\n\n", "not a dataset manifest"},
      {good.substr(0, good.size() / 2), "not a dataset manifest"},
      {"[1]", "not a dataset manifest"},
      {"{}", "'format' is missing"},
      {with(good, "dos.dataset", "other"), "'format' is 'other', expected 'dos.dataset'"},
      {with(good, "\"version\": 2", "\"version\": 4"), "'version' is 4, this program reads 1 to 3"},
      {with(good, "\"largest\"", "\"largess\""), "'largest' is missing"},
      {with(good, "499", "500"), "'largest.train' is 500, outside the vocabulary of 500"},
      {with(good, "0000000000001234", "1234"), "'xxh3.train' must be 16 hexadecimal digits"},
      {with(good, "\"sentencepiece\"", "\"words\""), "'tokenizer' is 'words'"},
      {with(good, "\"vocabulary\": 500", "\"vocabulary\": 0"),
       "'vocabulary' must be a whole number of at least 1, is 0"},
      {with(good, "\"vocabulary\": 500", "\"vocabulary\": -1"), "'vocabulary' must be"},
      {with(good, "\"vocabulary\": 500", "\"vocabulary\": 500.5"), "'vocabulary' must be"},
      {with(good, "\"vocabulary\": 500", "\"vocabulary\": \"500\""), "'vocabulary' must be"},
      {with(good, "\"vocabulary\": 500", "\"vocabulary\": 18446744073709551615"),
       "'vocabulary' must be"},
      {with(good, "\"val\"", "\"test\""), "'val' is missing"},
      {with(good, "\"model\"", "\"models\""), "'model' is missing"},
      {with(good, "a.model", ""), "'model.file' must name a file beside the manifest"},
      {with(good, "a.model", "../a.model"), "'model.file' must name a file beside the manifest"},
      {with(good, "\"sources\"", "\"files\""), "'sources' is missing"},
      {with(good, "\"bytes\": 0", "\"bytes\": -1"), "'bytes' must be"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT([&] { (void)read(c.text); },
                fails_with({path().string(), c.complaint, "prepare_data"}));
  }
}

TEST_F(ManifestTest, NamesAMissingFile) {
  EXPECT_THAT([&] { (void)read_manifest(path()); },
              fails_with({path().string(), "missing", "tokenizer of this dataset is unknown"}));
}

TEST(Hash, IsXxHash64) {
  // Test vector of the xxHash specification: no input, seed 0.
  EXPECT_EQ(hash_of(""), "xxh64:ef46db3751d8e999");
  EXPECT_NE(hash_of("a"), hash_of("b"));
}

}  // namespace
}  // namespace dos::data::dataset_manifest_test

// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.hpp"

#include <numeric>

#include "data/corpus.hpp"
#include "data/files.hpp"
#include "data/sentencepiece.hpp"
#include "data/tokenizer_of.hpp"
#include "scratch_directory.hpp"

namespace dos::data::dataset_test {
namespace {

using test::fails_with;

class DatasetTest : public testing::Test {
 protected:
  DatasetTest() {
    test::write_tokens(paths_.train, 257, {1, 2, 3});
    test::write_tokens(paths_.val, 257, {4});
  }

  void write_manifest(const DatasetManifest& manifest) const {
    write_durably(paths_.manifest, to_text(manifest));
  }
  void write_model_and_manifest(const std::string& model) const {
    write_durably(paths_.model, model);
    write_manifest({.tokenizer = "sentencepiece",
                    .vocabulary = 330,
                    .train_tokens = 3,
                    .val_tokens = 1,
                    .model_file = "set.model",
                    .model_bytes = std::ssize(model),
                    .model_hash = hash_of(model),
                    .sources = {}});
  }

  test::ScratchDirectory scratch_;
  std::filesystem::path prefix_ = scratch_ / "set";
  DatasetPaths paths_{prefix_};
  DatasetManifest bytes_{.tokenizer = "bytes",
                         .vocabulary = 257,
                         .train_tokens = 3,
                         .val_tokens = 1,
                         .model_file = {},
                         .model_hash = {},
                         .sources = {}};
};

TEST_F(DatasetTest, OpensWithoutManifest) {
  const Dataset dataset = open_dataset(prefix_);
  EXPECT_EQ(dataset.train.size(), 3);
  EXPECT_EQ(dataset.val.size(), 1);
  EXPECT_FALSE(dataset.manifest.has_value());
  EXPECT_THAT([&] { (void)test::tokenizer_of(prefix_); },
              fails_with({paths_.manifest.string(), "missing"}));
}

TEST_F(DatasetTest, ReadsSeveralFilesAsOne) {
  // The tokens 0 .. 29 in files of 7, 1 and 22, more than nine of which sort by number only.
  const auto prefix = scratch_ / "web";
  std::vector<std::int32_t> all(30);
  std::iota(all.begin(), all.end(), 0);
  const auto part = [&](Index first, Index last) {
    return std::vector(all.begin() + first, all.begin() + last);
  };
  test::write_tokens(scratch_ / "web_train_000009.bin", 300, part(0, 7));
  test::write_tokens(scratch_ / "web_train_000010.bin", 300, part(7, 8));
  test::write_tokens(scratch_ / "web_train_000011.bin", 300, part(8, 30));
  test::write_tokens(scratch_ / "web_train_12.bin", 300, {299});
  test::write_tokens(scratch_ / "web_val_000000.bin", 300, {4, 5});
  const Dataset dataset = open_dataset(prefix);
  EXPECT_EQ(test::tokens_of(dataset.train), all);
  EXPECT_EQ(test::tokens_of(dataset.val), (std::vector<std::int32_t>{4, 5}));
  for (Index first = 0; first < 30; ++first)
    for (Index last = first; last <= 30; ++last) {
      std::vector<std::int32_t> read(static_cast<std::size_t>(last - first));
      dataset.train.read(first, read);
      EXPECT_EQ(read, part(first, last));
    }
  const auto sums = dataset.train.check(300, {});
  ASSERT_TRUE(sums.has_value());
  EXPECT_EQ(sums->largest, 29);
  EXPECT_THAT([&] { (void)dataset.train.check(10, {}); },
              fails_with({"web_train_000011.bin: token 10 at position 2"}));
  std::filesystem::resize_file(scratch_ / "web_train_000010.bin", 1024);
  EXPECT_THAT([&] { (void)test::tokens_of(dataset.train); },
              fails_with({"web_train_000010.bin: was cut short"}));
}

TEST_F(DatasetTest, RefusesSeveralFilesThatAreNotOneCorpus) {
  test::write_tokens(scratch_ / "web_train_000001.bin", 300, {1});
  test::write_tokens(scratch_ / "web_train_000003.bin", 300, {2});
  test::write_tokens(scratch_ / "web_val_000000.bin", 300, {3});
  EXPECT_THAT([&] { (void)open_dataset(scratch_ / "web"); },
              fails_with({"web_train_000002.bin: missing, but", "web_train_000003.bin is there"}));
  test::write_tokens(scratch_ / "web_train_000002.bin", 70'000, {3});
  EXPECT_THAT([&] { (void)open_dataset(scratch_ / "web"); },
              fails_with({"web_train_000002.bin: has tokens of 4 bytes", "such of 2"}));
}

TEST_F(DatasetTest, OpensWithManifest) {
  write_manifest(bytes_);
  const Dataset dataset = open_dataset(prefix_);
  ASSERT_TRUE(dataset.manifest.has_value());
  EXPECT_EQ(dataset.manifest->vocabulary, 257);
  EXPECT_EQ(test::tokenizer_of(prefix_)->kind(), "bytes");
}

TEST_F(DatasetTest, KnowsATokenFileAgain) {
  const auto identity = [&](const std::vector<std::int32_t>& tokens,
                            std::optional<std::uint64_t> checksum) {
    test::write_tokens(paths_.train, 257, tokens);
    std::optional<TokenSums> sums;
    if (checksum) sums = TokenSums{.largest = 3, .checksum = *checksum};
    return identify(TokenFile(paths_.train), sums);
  };
  const TokenFileIdentity first = identity({1, 2, 3}, {});
  EXPECT_TRUE(first.matches(identity({1, 2, 3}, {})));
  EXPECT_TRUE(first.matches(identity({1, 2, 3}, 5)));
  EXPECT_FALSE(first.matches(identity({1, 2, 3, 4}, {})));
  EXPECT_FALSE(first.matches(identity({1, 2, 4}, {})));
  EXPECT_FALSE(identity({1, 2, 3}, 5).matches(identity({1, 2, 3}, 6)));
  EXPECT_TRUE(identity({1, 2, 3}, 5).matches(identity({1, 2, 4}, 5))) << "damaged, no other one";
  // Of a long file the ends count, without checksums.
  std::vector<std::int32_t> tokens(20'000, 7);
  const TokenFileIdentity long_one = identity(tokens, {});
  tokens[10'000] = 8;
  EXPECT_TRUE(long_one.matches(identity(tokens, {})));
  tokens[19'999] = 8;
  EXPECT_FALSE(long_one.matches(identity(tokens, {})));
}

TEST_F(DatasetTest, NamesTheMissingTokenFile) {
  std::filesystem::remove(paths_.val);
  EXPECT_THAT([&] { (void)open_dataset(prefix_); },
              fails_with({paths_.val.string(), "missing", "data.path"}));
}

TEST_F(DatasetTest, RefusesPrefixesWithoutAName) {
  for (const char* prefix : {"", "data/"}) {
    EXPECT_THAT([&] { (void)open_dataset(prefix); }, fails_with({"is no dataset PREFIX"}));
  }
}

TEST_F(DatasetTest, RefusesAManifestOfOtherTokenFiles) {
  bytes_.val_tokens = 2;
  write_manifest(bytes_);
  EXPECT_THAT([&] { (void)open_dataset(prefix_); },
              fails_with({paths_.manifest.string(), "2 tokens in set_val.bin, which holds 1"}));
}

TEST_F(DatasetTest, RefusesAManifestOfAnotherVocabulary) {
  bytes_.vocabulary = 256;
  write_manifest(bytes_);
  EXPECT_THAT([&] { (void)test::tokenizer_of(prefix_); },
              fails_with({paths_.manifest.string(), "'vocabulary' is 256", "has 257"}));
}

TEST_F(DatasetTest, LoadsTheModelThatTheManifestNames) {
  const std::string text = test::corpus();
  const std::string_view view = text;
  write_model_and_manifest(
      train_sentencepiece(std::span(&view, 1), {.vocabulary = 330, .algorithm = "bpe"}));
  EXPECT_EQ(test::tokenizer_of(prefix_)->vocabulary(), 330);

  std::string changed = read_text(paths_.model);
  changed.back() ^= 1;
  write_durably(paths_.model, changed);
  EXPECT_THAT([&] { (void)test::tokenizer_of(prefix_); },
              fails_with({paths_.model.string(), "not the model", paths_.manifest.string()}));
  std::filesystem::remove(paths_.model);
  EXPECT_THAT([&] { (void)test::tokenizer_of(prefix_); },
              fails_with({paths_.model.string(), "missing", paths_.manifest.string()}));
}

TEST_F(DatasetTest, RefusesAModelThatIsNone) {
  write_model_and_manifest("not a model");
  EXPECT_THAT([&] { (void)test::tokenizer_of(prefix_); },
              fails_with({paths_.model.string(), "not a SentencePiece model"}));
}

}  // namespace
}  // namespace dos::data::dataset_test

// SPDX-License-Identifier: Apache-2.0
// Token files of other programs: Megatron-LM's with an index, nanoGPT's without a header.
#include "data/token_layout.hpp"

#include <cstring>
#include <numeric>

#include "data/dataset.hpp"
#include "data/files.hpp"
#include "data/loader.hpp"
#include "scratch_directory.hpp"

namespace dos::data::token_layout_test {
namespace {

using test::fails_with;
using Tokens = std::vector<std::int32_t>;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// What Megatron-LM's IndexedDatasetBuilder writes of sequences, and which of them start documents.
struct MegatronIndex {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::uint64_t version = 1;
  std::uint8_t type = 8;
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> places;
  std::vector<std::int64_t> documents;

  MegatronIndex(const std::vector<std::int32_t>& sequences, Index width)
      : type(width == 2 ? 8 : 4), lengths(sequences) {
    std::int64_t place = 0;
    for (const std::int32_t length : sequences) {
      documents.push_back(std::ssize(places));
      places.push_back(place);
      place += length * width;
    }
    documents.push_back(std::ssize(places));
  }
  [[nodiscard]] std::string text() const {
    const std::vector<std::uint64_t> counts{lengths.size(), documents.size()};
    return magic + bytes_of(std::vector{version}) + static_cast<char>(type) + bytes_of(counts) +
           bytes_of(lengths) + bytes_of(places) + bytes_of(documents);
  }
};

class TokenLayoutTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((scratch_ / name).parent_path());
    write_durably(scratch_ / name, bytes);
  }
  template <class T>
  [[nodiscard]] static std::vector<T> counting(std::size_t count) {
    std::vector<T> values(count);
    std::iota(values.begin(), values.end(), T{0});
    return values;
  }
  [[nodiscard]] Dataset open(const std::string& prefix) const {
    return open_dataset(scratch_ / prefix);
  }
  void expect_refused(const std::string& prefix, const std::vector<std::string>& parts) const {
    EXPECT_THAT([&] { (void)open(prefix); }, fails_with(parts));
  }
  test::ScratchDirectory scratch_;
};

TEST_F(TokenLayoutTest, NanoGptsFolderHasBareTokens) {
  write("nano/train.bin", bytes_of(std::vector<std::uint16_t>{5, 50'256, 65'535, 7}));
  write("nano/val.bin", bytes_of(std::vector<std::uint16_t>{9}));
  for (const char* prefix : {"nano", "nano/"}) {
    const Dataset dataset = open(prefix);
    EXPECT_EQ(test::tokens_of(dataset.train), (Tokens{5, 50'256, 65'535, 7}));
    EXPECT_EQ(test::tokens_of(dataset.val), Tokens{9});
    EXPECT_FALSE(dataset.manifest.has_value());
  }
  EXPECT_THAT([&] { (void)open("nano").train.check(50'257, {}); },
              fails_with({"nano/train.bin: token 65535 at position 2", "model.vocab=50257"}));
  write("nano/val.bin", "abc");
  expect_refused("nano", {"nano/val.bin: 3 bytes, no whole number of bare 16-bit tokens"});
}

TEST_F(TokenLayoutTest, AFolderMayHoldOurFiles) {
  std::filesystem::create_directory(scratch_ / "nano");
  test::write_tokens(scratch_ / "nano/train.bin", 70'000, {1, 69'999});
  test::write_tokens(scratch_ / "nano/val.bin", 100, {3});
  EXPECT_EQ(test::tokens_of(open("nano").train), (Tokens{1, 69'999}));
  EXPECT_EQ(test::tokens_of(open("nano").val), Tokens{3});
}

TEST_F(TokenLayoutTest, OtherNamesAreNotTakenForBareTokens) {
  write("x_train.bin", std::string(4096, 'a'));
  write("x_val.bin", std::string(4096, 'a'));
  expect_refused("x", {"x_train.bin: not a token file (magic number", "nanoGPT"});
}

TEST_F(TokenLayoutTest, MegatronsTwoFiles) {
  write("m_train.bin", bytes_of(counting<std::uint16_t>(30)));
  write("m_train.idx", MegatronIndex({10, 0, 20}, 2).text());
  write("m_val.bin", bytes_of(std::vector<std::int32_t>{70'000, 1, 2}));
  write("m_val.idx", MegatronIndex({3}, 4).text() + '\0');  // and the modes of newer versions
  const Dataset dataset = open("m");
  EXPECT_EQ(test::tokens_of(dataset.train), counting<std::int32_t>(30));
  EXPECT_EQ(test::tokens_of(dataset.val), (Tokens{70'000, 1, 2}));
}

TEST_F(TokenLayoutTest, MegatronsOneFileIsDividedBetweenDocuments) {
  struct Case {
    std::vector<std::int32_t> documents;
    Index train;
  };
  const Case cases[] = {
      {{90, 10}, 90},    // nine tenths to the token
      {{89, 5, 6}, 94},  // the first document behind them
      {{50, 50}, 50},    // or the last document
      {{1, 99}, 1},     {{95, 5}, 95}, {{30, 0, 30, 40, 0}, 60},
  };
  write("m.bin", bytes_of(counting<std::uint16_t>(100)));
  for (const Case& c : cases) {
    write("m.idx", MegatronIndex(c.documents, 2).text());
    const Dataset dataset = open("m");
    Tokens both = test::tokens_of(dataset.train);
    EXPECT_EQ(std::ssize(both), c.train);
    const Tokens val = test::tokens_of(dataset.val);
    both.insert(both.end(), val.begin(), val.end());
    EXPECT_EQ(both, counting<std::int32_t>(100));
    EXPECT_EQ(dataset.val.check(100, {})->largest, 99);
  }
  write("m.idx", MegatronIndex({100}, 2).text());
  expect_refused("m", {"m.idx: one document", "PREFIX_train.bin"});
}

TEST_F(TokenLayoutTest, AnIndexThatDoesNotFitIsRefused) {
  write("m.bin", bytes_of(counting<std::uint16_t>(100)));
  const MegatronIndex good({60, 30, 10}, 2);
  const auto refused = [&](auto change, const std::vector<std::string>& parts) {
    MegatronIndex bad = good;
    change(bad);
    write("m.idx", bad.text());
    expect_refused("m", parts);
  };
  refused([](auto& i) { i.magic[0] = 'X'; }, {"m.idx: not an index of Megatron-LM"});
  refused([](auto& i) { i.version = 2; }, {"m.idx: version 2"});
  refused([](auto& i) { i.type = 5; }, {"m.idx: tokens of type 5"});
  refused([](auto& i) { i.lengths.back() = 9; }, {"m.bin: 200 bytes", "m.idx speaks of 99"});
  refused([](auto& i) { i.lengths.back() = -1; }, {"sequence 2 of -1 tokens"});
  refused([](auto& i) { i.places[1] = 122; }, {"sequence 1", "starts at byte 122", "byte 120"});
  refused([](auto& i) { i.documents[1] = 4; }, {"document 1 starts at sequence 4 of 3"});
  refused([](auto& i) { i.documents[0] = 1; }, {"document 0 starts at sequence 1"});
  refused([](auto& i) { i.documents.pop_back(); }, {"document 2 starts at sequence 2 of 3"});
  write("m.idx", good.text().substr(0, 60));
  expect_refused("m", {"m.idx: 60 bytes, where 3 sequences"});
  write("m.idx", good.text().substr(0, 20));
  expect_refused("m", {"m.idx: not an index"});
  std::string huge = good.text();
  huge[18 + 7] = '\x7f';
  write("m.idx", huge);
  expect_refused("m", {"m.idx: announces", "sequences"});
  write("m.idx", good.text());
  write("m.bin", std::string(199, 'a'));
  expect_refused("m", {"m.bin: 199 bytes, but m.idx speaks of 100 tokens of 2 bytes"});
}

TEST_F(TokenLayoutTest, SamplesComeFromThePart) {
  write("m.bin", bytes_of(counting<std::uint16_t>(100)));
  write("m.idx", MegatronIndex({60, 30, 10}, 2).text());
  const Loader loader(open("m").val,
                      {.context = 4, .vocabulary = 100, .seed = 1, .shuffle = false});
  EXPECT_EQ(loader.windows(), 2);
  Tokens sample(5);
  loader.sample(0, sample);
  EXPECT_EQ(sample, (Tokens{90, 91, 92, 93, 94}));
}

}  // namespace
}  // namespace dos::data::token_layout_test

// SPDX-License-Identifier: Apache-2.0
#include "data/token_file.hpp"

#include "data/files.hpp"
#include "scratch_directory.hpp"

namespace dos::data::token_file_test {
namespace {

using test::fails_with;
using testing::ElementsAre;

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

/// A file as its specification words it, written without this project's writer.
std::string narrow_file(std::int32_t count, std::initializer_list<std::uint16_t> tokens) {
  std::string header = raw<std::int32_t>({20240520, 1, count});
  header.resize(1024);
  return header + raw(tokens);
}

class TokenFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path written(const std::string& contents) const {
    write_durably(path(), contents);
    return path();
  }
  [[nodiscard]] std::filesystem::path path() const { return scratch_ / "t.bin"; }
  test::ScratchDirectory scratch_;
};

TEST_F(TokenFileTest, WritesTheTwoByteLayout) {
  test::write_tokens(path(), 65'536, {0, 1, 65'535});
  EXPECT_EQ(read_text(path()), narrow_file(3, {0, 1, 65'535}));
}

TEST_F(TokenFileTest, WritesTheFourByteLayoutForLargeVocabularies) {
  test::write_tokens(path(), 65'537, {0, 65'536});
  std::string expected = raw<std::int32_t>({20240801, 7, 2});
  expected.resize(1024);
  EXPECT_EQ(read_text(path()), expected + raw<std::uint32_t>({0, 65'536}));
  EXPECT_THAT(test::tokens_of(TokenFile(path())), ElementsAre(0, 65'536));
}

TEST_F(TokenFileTest, ReadsAnyPart) {
  const TokenFile file(written(narrow_file(3, {7, 8, 65'535})));
  EXPECT_EQ(file.size(), 3);
  EXPECT_EQ(file.path(), path());
  EXPECT_EQ(file[2], 65'535);
  std::array<std::int32_t, 2> part{};
  file.read(1, part);
  EXPECT_THAT(part, ElementsAre(8, 65'535));
  file.read(3, std::span<std::int32_t>());
  EXPECT_THROW(file.read(2, part), ContractViolation);
  EXPECT_THROW(file.read(-1, part), ContractViolation);
  EXPECT_THROW((void)file[3], ContractViolation);
}

TEST_F(TokenFileTest, SaysWhenItWasCutShortWhileInUse) {
  test::write_tokens(path(), 60'000, std::vector<std::int32_t>(50'000, 7));
  const TokenFile file(path());
  std::filesystem::resize_file(path(), 1024 + 2 * 40'000 + 1);
  std::vector<std::int32_t> part(40'000);  // of several blocks
  file.read(0, part);
  EXPECT_EQ(part.back(), 7);
  EXPECT_THAT([&] { file.read(10'000, part); },
              fails_with({path().string(), "was cut short while it is in use: 50000 tokens",
                          "from 40000 on", "continue with --resume"}));
  EXPECT_THAT([&] { (void)file.check(60'000, {}); }, fails_with({"was cut short"}));
}

TEST_F(TokenFileTest, WriterAndCheckAgreeOnTheSums) {
  for (const Index vocabulary : {60'000, 70'000}) {
    TokenWriter writer(path(), vocabulary);
    EXPECT_EQ(writer.sums().largest, -1);
    std::vector<std::int32_t> tokens(300'000, 3);
    tokens[270'000] = 59'999;
    writer.append(std::span(tokens).first(100));
    writer.append(std::span(tokens).subspan(100));
    const TokenSums sums = writer.sums();
    EXPECT_EQ(sums.largest, 59'999);
    writer.commit();
    const TokenFile file(path());
    EXPECT_EQ(file.check(60'000, {}), sums);
    EXPECT_THAT([&] { (void)file.check(59'999, {}); },
                fails_with({"token 59999 at position 270000 is outside model.vocab=59999"}));
    std::stop_source stop;
    stop.request_stop();
    EXPECT_EQ(file.check(60'000, stop.get_token()), std::nullopt);
  }
}

TEST_F(TokenFileTest, AppendsInAnyNumberOfParts) {
  // Odd sizes around the 16,384 tokens that are converted at once.
  for (const std::size_t count : {1U, 16'383U, 16'384U, 16'385U, 50'001U}) {
    std::vector<std::int32_t> tokens(count);
    for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::int32_t>(i % 60'000);
    TokenWriter writer(path(), 60'000);
    writer.append({});
    writer.append(std::span(tokens).first(1));
    writer.append(std::span(tokens).subspan(1));
    EXPECT_EQ(writer.size(), static_cast<Index>(count));
    writer.commit();
    EXPECT_EQ(test::tokens_of(TokenFile(path())), tokens);
  }
}

TEST_F(TokenFileTest, CountsBeyond31BitsUseTheFourthSlot) {
  constexpr Index kCount = (Index{1} << 32) + 5;
  const auto header = token_header(257, kCount);
  EXPECT_THAT(std::span(header).first(5), ElementsAre(20240520, 1, 5, 1, 0));
  EXPECT_EQ(token_header(257, (Index{1} << 31) - 1)[2], 2'147'483'647);
  EXPECT_EQ(token_header(257, (Index{1} << 31) - 1)[3], 0);

  const std::string text(reinterpret_cast<const char*>(header.data()), sizeof header);
  std::error_code no_space;
  std::filesystem::resize_file(written(text), 1024 + 2 * kCount, no_space);  // sparse
  if (no_space) GTEST_SKIP() << "no 8 GiB sparse files here: " << no_space.message();
  const TokenFile file(path());
  EXPECT_EQ(file.size(), kCount);
  EXPECT_EQ(file[kCount - 1], 0);
}

TEST_F(TokenFileTest, RefusesWhatIsNoTokenFile) {
  const std::string good = narrow_file(3, {7, 8, 9});
  struct Case {
    std::string contents;
    std::string complaint;
  };
  std::string foreign = good;
  foreign.replace(0, 4, "RIFF");
  std::string version = good;
  version[4] = 2;
  std::string mixed = good;
  mixed.replace(0, 4, raw<std::int32_t>({20240801}));
  const Case cases[] = {
      {"", "empty file"},
      {"x", "1 bytes, too short for the 1024-byte header"},
      {good.substr(0, 1023), "1023 bytes, too short"},
      {good.substr(0, 1024), "truncated: the header announces 3 tokens, the file holds 0"},
      {good.substr(0, 1029), "truncated: the header announces 3 tokens, the file holds 2"},
      {good + "x", "1 bytes follow the 3 tokens"},
      {good + good, "1030 bytes follow the 3 tokens"},
      {narrow_file(0, {}), "holds no tokens"},
      {narrow_file(-1, {}), "truncated: the header announces 4294967295 tokens"},
      {foreign, "not a token file (magic number 1179011410, expected 20240520 or 20240801)"},
      {version, "token file version 2 of magic number 20240520, expected 1"},
      {mixed, "token file version 1 of magic number 20240801, expected 7"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT([&] { TokenFile{written(c.contents)}; },
                fails_with({path().string(), c.complaint, ";"}));
  }
}

TEST_F(TokenFileTest, RefusesMissingFiles) {
  EXPECT_THAT([&] { TokenFile{path()}; },
              fails_with({path().string(), "missing; data.path must be the PREFIX"}));
}

TEST_F(TokenFileTest, RefusesTokensOutsideTheVocabulary) {
  for (const std::int32_t bad : {-1, 257, 65'536 + 3}) {
    const std::array<std::int32_t, 2> tokens{256, bad};
    TokenWriter writer(path(), 257);
    writer.append(std::span(tokens).first(1));
    EXPECT_THAT([&] { writer.append(tokens); },
                fails_with({path().string(), "token " + std::to_string(bad) + " at position 2",
                            "vocabulary of 257"}));
  }
  EXPECT_TRUE(test::names_in(scratch_.path()).empty());
}

TEST_F(TokenFileTest, AppearsOnlyWhenCommittedWithTokens) {
  {
    TokenWriter writer(path(), 257);
    EXPECT_THAT([&] { writer.commit(); }, fails_with({path().string(), "no tokens to write"}));
  }
  {
    TokenWriter writer(path(), 257);
    writer.append(std::array{1});
  }
  EXPECT_TRUE(test::names_in(scratch_.path()).empty());
}

TEST_F(TokenFileTest, NamesThePathThatCannotBeWritten) {
  EXPECT_THAT([&] { TokenWriter(scratch_ / "none/t.bin", 257); },
              fails_with({"none/t.bin", "cannot create"}));
}

}  // namespace
}  // namespace dos::data::token_file_test

// SPDX-License-Identifier: Apache-2.0
#include "data/verification.hpp"

#include "data/files.hpp"
#include "scratch_directory.hpp"

namespace dos::data::verification_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;

class VerificationTest : public testing::Test {
 protected:
  /// A data set whose largest tokens are 500 and 7, with checksums in its manifest.
  VerificationTest() {
    manifest_.tokenizer = kBytes;
    manifest_.vocabulary = 600;
    manifest_.train_tokens = 600'000;  // of several pieces
    manifest_.val_tokens = 3;
    manifest_.train_sums = write(paths_.train, std::vector<std::int32_t>(600'000, 500));
    manifest_.val_sums = write(paths_.val, {5, 6, 7});
  }

  static TokenSums write(const std::filesystem::path& path,
                         const std::vector<std::int32_t>& tokens) {
    TokenWriter writer(path, 600);
    writer.append(tokens);
    const TokenSums sums = writer.sums();
    writer.commit();
    return sums;
  }
  void write_manifest() const { write_durably(paths_.manifest, to_text(manifest_)); }

  [[nodiscard]] std::optional<std::string> fault(Index vocabulary = 600) const {
    const Verification verification(open_sources({{.prefix = (scratch_ / "set").string()}}),
                                    vocabulary);
    EXPECT_TRUE(verification.wait_for(std::chrono::minutes(1)));
    return verification.fault();
  }

  test::ScratchDirectory scratch_;
  DatasetPaths paths_{scratch_ / "set"};
  DatasetManifest manifest_;
};

TEST_F(VerificationTest, FindsNothingInWhatWasWritten) {
  EXPECT_EQ(fault(), std::nullopt);
  write_manifest();
  EXPECT_EQ(fault(), std::nullopt);
  EXPECT_EQ(fault(501), std::nullopt);
}

TEST_F(VerificationTest, FindsOneFlippedBit) {
  write_manifest();
  for (const auto& path : {paths_.train, paths_.val}) {
    const std::string good = read_text(path);
    for (const std::size_t at : {std::size_t{1024}, good.size() - 1}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      write_durably(path, bad);
      EXPECT_THAT(fault(), Optional(AllOf(HasSubstr(path.string()), HasSubstr("its tokens have"))));
    }
    write_durably(path, good);
  }
}

TEST_F(VerificationTest, FindsTokensOutsideTheVocabularyWithoutAManifest) {
  EXPECT_THAT(fault(500), Optional(AllOf(HasSubstr("_train.bin: token 500 at position 0"),
                                         HasSubstr("raise model.vocab above 500"))));
  EXPECT_THAT(fault(7), Optional(HasSubstr("_val.bin: token 7 at position 2")));
}

TEST_F(VerificationTest, EndsWithItsObject) {
  std::filesystem::resize_file(paths_.train, 1024);
  {
    // 2^31 tokens, of a file that takes no room.
    const auto header = token_header(600, Index{1} << 31);
    write_durably(paths_.train, {reinterpret_cast<const char*>(header.data()), sizeof header});
    std::filesystem::resize_file(paths_.train, 1024 + 2 * (std::uintmax_t{1} << 31));
  }
  const auto start = std::chrono::steady_clock::now();
  { const Verification verification(open_sources({{.prefix = (scratch_ / "set").string()}}), 600); }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace dos::data::verification_test

// SPDX-License-Identifier: Apache-2.0
#include "data/mask_file.hpp"

#include "base/random.hpp"
#include "data/files.hpp"
#include "data/loader.hpp"
#include "scratch_directory.hpp"

namespace dos::data::mask_file_test {
namespace {

using test::fails_with;
using Bits = std::vector<bool>;

Bits random_bits(Index count, double density, std::uint64_t seed) {
  const Philox random(seed);
  Bits bits;
  for (Index i = 0; i < count; ++i)
    bits.push_back(random.uniform(static_cast<std::uint64_t>(i)) < density);
  return bits;
}

class MaskFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return scratch_ / "a.mask"; }

  /// Written in pieces; what does not count is negative.
  MaskSums write(const Bits& bits) const {
    MaskWriter writer(path());
    std::vector<std::int32_t> piece;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      piece.push_back(bits[i] ? 7 : -8);
      if (i % 5 != 4 && i + 1 != bits.size()) continue;
      writer.append(piece);
      piece.clear();
    }
    const MaskSums sums = writer.finish();
    writer.commit();
    return sums;
  }

  test::ScratchDirectory scratch_;
};

TEST_F(MaskFileTest, ReadsWhatWasWritten) {
  // Around bytes, around the blocks of the writer.
  for (const Index count : {1, 7, 8, 9, 64, 1001, 32'767, 32'768, 32'769, 100'000}) {
    const Bits bits = random_bits(count, 0.3, 1);
    const MaskSums sums = write(bits);
    const MaskFile file(path());
    ASSERT_EQ(file.size(), count);
    EXPECT_EQ(sums.targets, std::ranges::count(bits, true));
    EXPECT_EQ(file.check({}), sums);
    for (const Index first : {Index{0}, count / 3, count - 1}) {
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(count - first), 5);
      file.apply(first, tokens);
      for (Index i = first; i < count; ++i)
        ASSERT_EQ(tokens[static_cast<std::size_t>(i - first)],
                  bits[static_cast<std::size_t>(i)] ? 5 : -6);
    }
  }
}

TEST_F(MaskFileTest, CountsStretches) {
  const Bits bits = random_bits(3000, 0.5, 2);
  write(bits);
  const MaskFile file(path());
  for (const Index length : {1, 3, 8, 13, 16, 200, 2999}) {
    std::vector<Index> counts(static_cast<std::size_t>(2999 / length));
    file.count(1, length, counts);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto first = bits.begin() + 1 + static_cast<std::ptrdiff_t>(i) * length;
      ASSERT_EQ(counts[i], std::count(first, first + length, true)) << length << " " << i;
    }
  }
}

TEST_F(MaskFileTest, DamageIsNamed) {
  write(random_bits(100, 0.5, 3));
  const std::string good = read_text(path());
  const auto open = [&](const std::string& text) {
    return [this, text] {
      write_durably(path(), text);
      const MaskFile file(path());
    };
  };
  EXPECT_THAT(open("dos.mas"), fails_with({path().string(), "no mask file"}));
  EXPECT_THAT(open("x" + good.substr(1)), fails_with({"no mask file"}));
  for (const std::string& text : {good.substr(0, good.size() - 1), good + "x"})
    EXPECT_THAT(open(text), fails_with({"announces 100 tokens, but is", "prepare_data"}));
  EXPECT_THAT(open(good.substr(0, 8) + std::string(8, '\xFF') + good.substr(16)),
              fails_with({"announces 18446744073709551615 tokens"}));
  write_durably(path(), good);
  const MaskFile file(path());
  std::filesystem::resize_file(path(), 20);
  std::vector<std::int32_t> tokens(100);
  EXPECT_THAT([&] { file.apply(0, tokens); }, fails_with({"was cut short"}));
  EXPECT_THAT([&] { (void)file.check({}); }, fails_with({"was cut short"}));
  std::filesystem::remove(path());
  EXPECT_THAT([&] { const MaskFile gone(path()); }, fails_with({"missing", "prepare_data"}));
}

class MaskedLoaderTest : public MaskFileTest {
 protected:
  [[nodiscard]] Loader loader(const Bits& bits, Index context, bool shuffle = true) const {
    write(bits);
    const Index count = std::ssize(bits);
    return Loader(test::counting_file(scratch_ / "t.bin", count),
                  {.context = context, .vocabulary = count, .seed = 1, .shuffle = shuffle},
                  MaskFile(path()));
  }
};

TEST_F(MaskedLoaderTest, DealsOutWindowsWithTargetsOnly) {
  // The first token of a window is no target of it; 4 is the last target of the first window.
  Bits bits(21, false);
  for (const std::size_t counted : {4U, 9U, 11U, 12U, 0U}) bits[counted] = true;
  const Loader in_order = loader(bits, 4, false);
  ASSERT_EQ(in_order.windows(), 2);
  EXPECT_TRUE(in_order.has_mask());
  std::vector<std::int32_t> tokens(5);
  in_order.sample(0, tokens);
  EXPECT_THAT(tokens, testing::ElementsAre(0, -2, -3, -4, 4));
  EXPECT_EQ(in_order.targets(0), 1);
  in_order.sample(3, tokens);
  EXPECT_THAT(tokens, testing::ElementsAre(8, 9, -11, 11, 12));
  EXPECT_EQ(in_order.targets(3), 3);
}

TEST_F(MaskedLoaderTest, TargetsAreThoseOfTheSample) {
  for (const double density : {0.02, 0.5, 1.0}) {
    const Loader shuffled = loader(random_bits(2000, density, 5), 13);
    std::vector<std::int32_t> tokens(14);
    for (Index i = 0; i < 3 * shuffled.windows(); ++i) {
      shuffled.sample(i, tokens);
      const auto counted = std::count_if(tokens.begin() + 1, tokens.end(),
                                         [](std::int32_t element) { return element >= 0; });
      ASSERT_GT(counted, 0);
      ASSERT_EQ(shuffled.targets(i), counted);
    }
  }
}

TEST_F(MaskedLoaderTest, NoTargetAtAllIsRefused) {
  Bits bits(21, false);
  bits[0] = true;
  EXPECT_THAT([&] { (void)loader(bits, 4); },
              fails_with({"a.mask", "no window of model.context=4", "answers"}));
}

}  // namespace
}  // namespace dos::data::mask_file_test

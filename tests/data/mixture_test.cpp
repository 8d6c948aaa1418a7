// SPDX-License-Identifier: Apache-2.0
#include "data/mixture.hpp"

#include <algorithm>
#include <set>

#include "data/files.hpp"
#include "data/sources.hpp"
#include "scratch_directory.hpp"

namespace dos::data::mixture_test {
namespace {

using test::fails_with;
using testing::ElementsAre;

class MixtureTest : public testing::Test {
 protected:
  /// A loader of `windows` windows of two tokens, `first` and on.
  [[nodiscard]] Loader loader(std::int32_t first, Index windows) const {
    std::vector<std::int32_t> tokens;
    for (Index i = 0; i <= 2 * windows; ++i) tokens.push_back(first + static_cast<std::int32_t>(i));
    const auto path = scratch_ / fmt::format("{}.bin", first);
    test::write_tokens(path, 1'000'000, tokens);
    return {TokenFile(path), {.context = 2, .vocabulary = 1'000'000, .seed = 3}};
  }
  [[nodiscard]] Mixture mix(const std::vector<double>& weights, std::uint64_t seed = 5) const {
    std::vector<Mixture::Part> parts;
    for (std::size_t i = 0; i < weights.size(); ++i)
      parts.push_back({.loader = loader(static_cast<std::int32_t>(100'000 * i), 30'000),
                       .weight = weights[i],
                       .name = fmt::format("part{}", i)});
    return {std::move(parts), seed};
  }
  /// The first token of a sample.
  static std::int32_t token(const Mixture& mixture, Index index) {
    std::vector<std::int32_t> sample(3);
    mixture.sample(index, sample);
    return sample[0];
  }

  test::ScratchDirectory scratch_;
};

TEST_F(MixtureTest, OnePartGivesItsSamplesAsTheyAre) {
  const Loader alone = loader(0, 30'000);
  const Mixture mixture = mix({0.3});
  std::vector<std::int32_t> expected(3);
  for (const Index index : {0, 1, 29'999, 30'000, 123'456}) {
    alone.sample(index, expected);
    EXPECT_EQ(token(mixture, index), expected[0]);
  }
}

TEST_F(MixtureTest, ARoundHasTheWeightsToTheSample) {
  EXPECT_THAT(mix({0.7, 0.3}).shares(), ElementsAre(7000, 3000));
  EXPECT_THAT(mix({1, 1, 1}).shares(), ElementsAre(3334, 3333, 3333));
  EXPECT_THAT(mix({2, 9997.3, 0.7}).shares(), ElementsAre(2, 9997, 1));
  EXPECT_THAT(mix({1e308, 1e308}).shares(), ElementsAre(5000, 5000));
  EXPECT_THAT(mix({5e-324, 5e-324}).shares(), ElementsAre(5000, 5000));
  const Mixture mixture = mix({0.7, 0.3});
  for (const Index round : {0, 1}) {
    Index of_first = 0;
    for (Index i = 0; i < Mixture::kRound; ++i)
      of_first += token(mixture, round * Mixture::kRound + i) < 100'000;
    EXPECT_EQ(of_first, 7000);
  }
}

TEST_F(MixtureTest, EachPartGivesEachOfItsWindowsOnce) {
  // 30,000 windows of the second part last for ten rounds of 3000.
  const Mixture mixture = mix({0.7, 0.3});
  std::set<std::int32_t> seen;
  for (Index i = 0; i < 10 * Mixture::kRound; ++i)
    if (const std::int32_t found = token(mixture, i); found >= 100'000) seen.insert(found);
  EXPECT_EQ(seen.size(), 30'000U);
}

TEST_F(MixtureTest, TheSeedOrdersThem) {
  const Mixture a = mix({0.5, 0.5}, 1);
  const Mixture again = mix({0.5, 0.5}, 1);
  const Mixture b = mix({0.5, 0.5}, 2);
  Index different = 0;
  for (Index i = 0; i < 1000; ++i) {
    EXPECT_EQ(token(a, i), token(again, i));
    different += (token(a, i) < 100'000) != (token(b, i) < 100'000);
  }
  EXPECT_GT(different, 300);
}

TEST_F(MixtureTest, SamplesOfAStepDependOnTheProductAlone) {
  const Mixture mixture = mix({0.6, 0.4});
  const auto all = mixture.micro_batch({.batch = 6}, {.first_sample = 9'997});
  const BatchShape ranks{.batch = 3, .accumulate = 1, .ranks = 2};
  auto both = mixture.micro_batch(ranks, {.first_sample = 9'997, .rank = 0});
  const auto second = mixture.micro_batch(ranks, {.first_sample = 9'997, .rank = 1});
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(all, both);
}

TEST_F(MixtureTest, WeightsTooSmallAreNamed) {
  EXPECT_THAT(
      [&] {
        (void)mix({1, 1e-5});
      },
      fails_with({"data.sources", "weight 1e-05 of part1", "raise it"}));
}

TEST(SourcesTest, AreReadFromAList) {
  const auto sources = parse_sources("data/a:0.7, c:\\b:2e-1,x y:1");
  ASSERT_EQ(sources.size(), 3U);
  EXPECT_EQ(sources[0].prefix, "data/a");
  EXPECT_EQ(sources[0].weight, 0.7);
  EXPECT_EQ(sources[1].prefix, "c:\\b");
  EXPECT_EQ(sources[1].weight, 0.2);
  EXPECT_EQ(sources[2].prefix, "x y");
}

TEST(SourcesTest, BadListsAreRefused) {
  const std::pair<const char*, const char*> cases[] = {{"a", "'a' is not PREFIX:WEIGHT"},
                                                       {"a:1,", "'' is not PREFIX:WEIGHT"},
                                                       {":1", "':1' is not"},
                                                       {"a:", "'' of a is no weight"},
                                                       {"a:x", "'x' of a is no weight"},
                                                       {"a:1x", "'1x' of a is no weight"},
                                                       {"a:0", "'0' of a is no weight"},
                                                       {"a:-1", "'-1' of a"},
                                                       {"a:inf", "'inf' of a"},
                                                       {"a:nan", "'nan' of a"},
                                                       {"a:1,b:2,a:3", "a stands there twice"}};
  for (const auto& c : cases)
    EXPECT_THAT([&] { (void)parse_sources(c.first); }, fails_with({"data.sources", c.second}))
        << c.first;
}

TEST(SourcesTest, OneTokenizerMadeThemAll) {
  const test::ScratchDirectory scratch;
  const auto write = [&](const std::string& name, Index vocabulary, bool described) {
    const DatasetPaths paths(scratch / name);
    test::write_tokens(paths.train, vocabulary, {1, 2});
    test::write_tokens(paths.val, vocabulary, {3});
    DatasetManifest manifest;
    manifest.tokenizer = "bytes";
    manifest.vocabulary = vocabulary;
    manifest.train_tokens = 2;
    manifest.val_tokens = 1;
    if (described) write_durably(paths.manifest, to_text(manifest));
    return SourceName{.prefix = (scratch / name).string(), .weight = 1};
  };
  const auto foreign = write("foreign", 257, false);
  const auto a = write("a", 257, true);
  const auto b = write("b", 257, true);
  const auto other = write("other", 300, true);
  EXPECT_EQ(described(open_sources({foreign})), nullptr);
  const Sources sources = open_sources({foreign, a, b});
  EXPECT_EQ(described(sources), &sources[1]);
  EXPECT_THAT(
      [&] {
        (void)open_sources({a, other});
      },
      fails_with({"other was made with another tokenizer than"}));
}

}  // namespace
}  // namespace dos::data::mixture_test

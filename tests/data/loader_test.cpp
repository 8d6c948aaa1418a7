// SPDX-License-Identifier: Apache-2.0
#include "data/loader.hpp"

#include <set>

#include "data/files.hpp"
#include "scratch_directory.hpp"

namespace dos::data::loader_test {
namespace {

using test::fails_with;
using testing::ElementsAre;
using testing::ElementsAreArray;

class LoaderTest : public testing::Test {
 protected:
  /// A loader over the tokens 0 .. count - 1, so that a sample's first token tells its window.
  [[nodiscard]] Loader loader(Index count, Index context, bool shuffle = true,
                              std::uint64_t seed = 1) const {
    return Loader(test::counting_file(scratch_ / "t.bin", count),
                  {.context = context, .vocabulary = count, .seed = seed, .shuffle = shuffle});
  }
  test::ScratchDirectory scratch_;
};

std::vector<std::int32_t> sample(const Loader& loader, Index context, Index index) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(context + 1));
  loader.sample(index, tokens);
  return tokens;
}

std::vector<std::int32_t> first_tokens(const Loader& loader, Index context, Index from, Index to) {
  std::vector<std::int32_t> firsts;
  for (Index i = from; i < to; ++i) firsts.push_back(sample(loader, context, i).front());
  return firsts;
}

TEST_F(LoaderTest, CountsWholeWindowsWithTheirTarget) {
  struct Case {
    Index tokens, context, windows;
  };
  const Case cases[] = {{2, 1, 1}, {3, 1, 2}, {5, 4, 1}, {8, 4, 1}, {9, 4, 2}, {12, 4, 2}};
  for (const Case& c : cases) EXPECT_EQ(loader(c.tokens, c.context).windows(), c.windows);
}

TEST_F(LoaderTest, InOrderItWrapsAround) {
  const Loader in_order = loader(11, 3, false);
  ASSERT_EQ(in_order.windows(), 3);
  EXPECT_THAT(sample(in_order, 3, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(sample(in_order, 3, 2), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(first_tokens(in_order, 3, 0, 7), ElementsAre(0, 3, 6, 0, 3, 6, 0));
}

TEST_F(LoaderTest, EveryEpochHasEveryWindowOnce) {
  for (const Index windows : {1, 2, 3, 5, 64, 101}) {
    const Loader shuffled = loader(windows * 2 + 1, 2);
    ASSERT_EQ(shuffled.windows(), windows);
    for (Index epoch = 0; epoch < 3; ++epoch) {
      const auto firsts = first_tokens(shuffled, 2, epoch * windows, (epoch + 1) * windows);
      const std::set<std::int32_t> distinct(firsts.begin(), firsts.end());
      EXPECT_EQ(std::ssize(distinct), windows);
      EXPECT_EQ(*distinct.rbegin(), (windows - 1) * 2);
    }
  }
}

TEST_F(LoaderTest, OrderDependsOnSeedAndEpochAlone) {
  const auto order = first_tokens(loader(201, 2), 2, 0, 100);
  EXPECT_EQ(first_tokens(loader(201, 2), 2, 0, 100), order);
  EXPECT_NE(first_tokens(loader(201, 2), 2, 100, 200), order);
  EXPECT_NE(first_tokens(loader(201, 2, true, 2), 2, 0, 100), order);
  EXPECT_FALSE(std::ranges::is_sorted(order));
}

TEST_F(LoaderTest, ASampleNeedsNoHistory) {
  const Loader shuffled = loader(201, 2);
  const auto later = sample(shuffled, 2, 12'345'678'901);
  (void)sample(shuffled, 2, 3);
  EXPECT_EQ(sample(shuffled, 2, 12'345'678'901), later);
}

TEST_F(LoaderTest, SampleIndicesTileEveryStepWithoutGaps) {
  const BatchShape shape{.batch = 3, .accumulate = 2, .ranks = 5};
  EXPECT_EQ(shape.samples_per_step(), 30);
  Index expected = 0;
  for (Index step = 0; step < 2; ++step)
    for (Index micro_batch = 0; micro_batch < 2; ++micro_batch)
      for (Index rank = 0; rank < 5; ++rank)
        for (Index sequence = 0; sequence < 3; ++sequence)
          EXPECT_EQ(
              sample_index(shape,
                           {.first_sample = step * 30, .micro_batch = micro_batch, .rank = rank},
                           sequence),
              expected++);
}

TEST_F(LoaderTest, RanksTakeWhatAccumulationTakes) {
  const BatchShape ranks{.batch = 3, .accumulate = 1, .ranks = 4};
  const BatchShape accumulate{.batch = 3, .accumulate = 4, .ranks = 1};
  for (Index i = 0; i < 4; ++i)
    EXPECT_EQ(sample_index(ranks, {.first_sample = 72, .micro_batch = 0, .rank = i}, 2),
              sample_index(accumulate, {.first_sample = 72, .micro_batch = i, .rank = 0}, 2));
}

TEST_F(LoaderTest, FillsMicroBatches) {
  const Loader in_order = loader(13, 3, false);
  const BatchShape shape{.batch = 2, .accumulate = 1, .ranks = 2};
  EXPECT_THAT(in_order.micro_batch(shape, {.first_sample = 0, .micro_batch = 0, .rank = 1}),
              ElementsAre(6, 7, 8, 9, 9, 10, 11, 12));
  EXPECT_THAT(in_order.micro_batch(shape, {.first_sample = 1, .micro_batch = 0, .rank = 1}),
              ElementsAre(9, 10, 11, 12, 0, 1, 2, 3));
}

TEST_F(LoaderTest, RefusesFilesShorterThanASample) {
  EXPECT_THAT([&] { (void)loader(4, 4); },
              fails_with({"t.bin: 4 tokens", "model.context=4 takes 5", "lower model.context"}));
  EXPECT_THAT([&] { (void)loader(1, 1); }, fails_with({"t.bin: 1 tokens", "takes 2"}));
}

TEST_F(LoaderTest, NamesTheTokenOutsideTheVocabulary) {
  test::write_tokens(scratch_ / "wide.bin", 70'000, {0, 1, 2, 3, 69'999, 0, 1});
  const Loader narrow(TokenFile(scratch_ / "wide.bin"),
                      {.context = 2, .vocabulary = 257, .shuffle = false});
  EXPECT_THAT(sample(narrow, 2, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT([&] { (void)sample(narrow, 2, 1); },
              fails_with({"wide.bin: token 69999 at position 4", "model.vocab=257",
                          "another tokenizer", "raise model.vocab"}));
}

TEST_F(LoaderTest, RefusesBadConfigurations) {
  const auto with = [&](Index context, Index vocabulary) {
    (void)Loader(test::counting_file(scratch_ / "t.bin", 9),
                 {.context = context, .vocabulary = vocabulary});
  };
  EXPECT_THAT([&] { with(0, 9); }, fails_with({"model.context must be at least 1, is 0"}));
  EXPECT_THAT([&] { with(-3, 9); }, fails_with({"model.context must be at least 1, is -3"}));
  EXPECT_THAT([&] { with(2, 0); }, fails_with({"model.vocab must be at least 1, is 0"}));
}

TEST_F(LoaderTest, RequiresItsContract) {
  const Loader some = loader(9, 4);
  EXPECT_THROW((void)sample(some, 4, -1), ContractViolation);
  EXPECT_THROW((void)sample(some, 3, 0), ContractViolation);
  const BatchShape shape{.batch = 2, .accumulate = 2, .ranks = 2};
  EXPECT_THROW((void)sample_index(shape, {}, 2), ContractViolation);
  EXPECT_THROW((void)sample_index(shape, {.first_sample = -1}, 0), ContractViolation);
  EXPECT_THROW((void)sample_index(shape, {.micro_batch = 2}, 0), ContractViolation);
  EXPECT_THROW((void)sample_index(shape, {.rank = 2}, 0), ContractViolation);
}

}  // namespace
}  // namespace dos::data::loader_test

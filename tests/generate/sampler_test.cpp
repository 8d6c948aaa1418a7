// SPDX-License-Identifier: Apache-2.0
#include "generate/sampler.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "fails_with.hpp"

namespace dos::generate::sampler_test {
namespace {

using test::fails_with;
using Logits = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// How often each token is drawn at positions 0 .. draws - 1.
std::vector<Index> counts_of(const SamplingOptions& options, const Logits& logits, Index draws) {
  const Sampler sampler(options);
  std::vector<Index> counts(logits.size());
  for (Index position = 0; position < draws; ++position)
    ++counts[static_cast<std::size_t>(sampler.draw(logits, position))];
  return counts;
}

/// Token i has probability p[i]: exp(log p[i]) up to a factor.
Logits logits_of(const std::vector<double>& p) {
  Logits logits;
  for (const double x : p) logits.push_back(static_cast<float>(std::log(x)));
  return logits;
}

/// A count of n draws with probability p has standard deviation sqrt(n p (1 - p)); 5 of them are
/// missed once in 1.7 million. The draws are fixed by the seed: the test does not flicker.
void expect_distribution(const std::vector<Index>& counts, const std::vector<double>& p) {
  double n = 0;
  for (const Index count : counts) n += static_cast<double>(count);
  ASSERT_EQ(counts.size(), p.size());
  for (std::size_t i = 0; i < p.size(); ++i)
    EXPECT_NEAR(static_cast<double>(counts[i]), n * p[i], 5 * std::sqrt(n * p[i] * (1 - p[i])))
        << "token " << i;
}

TEST(Sampler, OneTokenIsAlwaysDrawn) {
  for (const double temperature : {0.0, 0.5, 100.0})
    EXPECT_EQ(counts_of({.temperature = temperature}, {3.0F}, 10), std::vector<Index>{10});
}

TEST(Sampler, TemperatureZeroTakesTheMostLikely) {
  const SamplingOptions options{.temperature = 0};
  EXPECT_EQ(counts_of(options, {0.0F, 2.0F, 1.0F}, 50), (std::vector<Index>{0, 50, 0}));
  EXPECT_EQ(counts_of(options, {-kInfinity, -9e37F}, 50), (std::vector<Index>{0, 50}));
}

TEST(Sampler, RepetitionIsPenalised) {
  const Sampler sampler({.temperature = 0, .repetition_penalty = 2});
  const Logits logits{3.0F, 4.0F, -1.0F};
  EXPECT_EQ(sampler.draw(logits, 0), 1);
  EXPECT_EQ(sampler.draw(logits, 0, std::vector{2, 7, -1}), 1) << "others do not matter";
  EXPECT_EQ(sampler.draw(logits, 0, std::vector{1}), 0) << "4 / 2 is below 3";
  EXPECT_EQ(sampler.draw(logits, 0, std::vector{1, 0, 0}), 1) << "each once: 1.5, 2";
  EXPECT_EQ(sampler.draw(Logits{-1.0F, -1.5F}, 0, std::vector{0}), 1) << "-1 * 2 is below -1.5";
  EXPECT_EQ(Sampler({.temperature = 0}).draw(logits, 0, std::vector{1, 1}), 1);
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity()})
    EXPECT_THAT([&] { Sampler({.repetition_penalty = bad}); },
                fails_with({"--repetition-penalty must be positive"}));
}

TEST(Sampler, TiesGoToTheLowerToken) {
  const Logits ties{1.0F, 5.0F, 5.0F, 5.0F};
  EXPECT_EQ(counts_of({.temperature = 0}, ties, 20), (std::vector<Index>{0, 20, 0, 0}));
  EXPECT_EQ(counts_of({.temperature = 1, .top_k = 1}, ties, 20), (std::vector<Index>{0, 20, 0, 0}));
  const auto two = counts_of({.temperature = 1, .top_k = 2}, ties, 200);
  EXPECT_EQ(two[0] + two[3], 0);
  EXPECT_GT(two[1], 0);
  EXPECT_GT(two[2], 0);
}

TEST(Sampler, FollowsTheProbabilities) {
  const std::vector<double> p{0.5, 0.05, 0.3, 0.15};
  expect_distribution(counts_of({.temperature = 1, .seed = 1}, logits_of(p), 40'000), p);
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  // p^(1/T) up to a factor: 0.64 : 0.04 and 0.9 : 0.45.
  expect_distribution(counts_of({.temperature = 0.5}, logits_of({0.8, 0.2}), 40'000),
                      {0.64 / 0.68, 0.04 / 0.68});
  expect_distribution(counts_of({.temperature = 2}, logits_of({0.8, 0.2}), 40'000),
                      {2.0 / 3, 1.0 / 3});
}

TEST(Sampler, ATinyTemperatureIsZero) {
  EXPECT_EQ(counts_of({.temperature = 1e-300}, {1.0F, 1.0001F}, 20), (std::vector<Index>{0, 20}));
}

TEST(Sampler, TopKKeepsTheMostLikely) {
  const Logits logits = logits_of({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(counts_of({.temperature = 1, .top_k = 1}, logits, 20),
            (std::vector<Index>{0, 20, 0, 0}));
  expect_distribution(counts_of({.temperature = 1, .top_k = 2}, logits, 40'000),
                      {0, 4.0 / 7, 0, 3.0 / 7});
  for (const Index all : {0, 4, 1000})
    EXPECT_EQ(counts_of({.temperature = 1, .top_k = all}, logits, 500),
              counts_of({.temperature = 1}, logits, 500));
}

TEST(Sampler, TopPKeepsTheFewestThatHoldTheProbability) {
  const Logits logits = logits_of({0.1, 0.5, 0.15, 0.25});
  EXPECT_EQ(counts_of({.temperature = 1, .top_p = 1e-9}, logits, 50),
            (std::vector<Index>{0, 50, 0, 0}));
  EXPECT_EQ(counts_of({.temperature = 1, .top_p = 0.49}, logits, 50),
            (std::vector<Index>{0, 50, 0, 0}));
  expect_distribution(counts_of({.temperature = 1, .top_p = 0.51}, logits, 40'000),
                      {0, 2.0 / 3, 0, 1.0 / 3});
  expect_distribution(counts_of({.temperature = 1, .top_p = 1}, logits, 40'000),
                      {0.1, 0.5, 0.15, 0.25});
}

TEST(Sampler, TopPIsOfWhatTopKLeaves) {
  // Of 0.4 and 0.3 the first holds 4/7 = 0.571.
  const Logits logits = logits_of({0.4, 0.3, 0.2, 0.1});
  EXPECT_EQ(counts_of({.temperature = 1, .top_k = 2, .top_p = 0.56}, logits, 50),
            (std::vector<Index>{50, 0, 0, 0}));
}

TEST(Sampler, ImpossibleTokensAreNeverDrawn) {
  const auto counts = counts_of({.temperature = 5}, {-kInfinity, 0.0F, -kInfinity, 0.0F}, 500);
  EXPECT_EQ(counts[0] + counts[2], 0);
  EXPECT_EQ(counts[1] + counts[3], 500);
}

TEST(Sampler, HugeLogitsDoNotOverflow) {
  EXPECT_EQ(counts_of({.temperature = 1}, {3e38F, -3e38F}, 20), (std::vector<Index>{20, 0}));
}

TEST(Sampler, DependsOnSeedPositionAndLogitsAlone) {
  const Logits logits(1000, 0.0F);
  const Sampler a({.temperature = 1, .seed = 7});
  const Sampler same({.temperature = 1, .seed = 7});
  const Sampler other({.temperature = 1, .seed = 8});
  Index equal_to_other = 0;
  Index equal_to_next = 0;
  for (Index position = 99; position >= 0; --position) {
    const auto drawn = a.draw(logits, position);
    EXPECT_EQ(drawn, same.draw(logits, position));
    EXPECT_EQ(drawn, a.draw(logits, position));
    equal_to_other += drawn == other.draw(logits, position);
    equal_to_next += drawn == a.draw(logits, position + 1);
  }
  // Of 100 pairs among 1000 tokens one in ten is expected to agree at all.
  EXPECT_LT(equal_to_other, 5);
  EXPECT_LT(equal_to_next, 5);
}

TEST(Sampler, RefusesLogitsThatAreNotFinite) {
  for (const double temperature : {0.0, 1.0})
    for (const Logits& logits : {Logits{kNan}, Logits{1.0F, kNan, 2.0F}, Logits{kInfinity, 0.0F},
                                 Logits{-kInfinity, -kInfinity}})
      EXPECT_THAT([&] { static_cast<void>(Sampler({.temperature = temperature}).draw(logits, 0)); },
                  fails_with({"not finite", "diverged"}));
  EXPECT_THROW(static_cast<void>(Sampler({}).draw(Logits{}, 0)), ContractViolation);
}

TEST(Sampler, NamesTheOptionOutOfRange) {
  const std::pair<SamplingOptions, std::vector<std::string>> cases[] = {
      {{.temperature = -0.1}, {"--temperature", "-0.1"}},
      {{.temperature = kNan}, {"--temperature", "nan"}},
      {{.temperature = kInfinity}, {"--temperature", "inf"}},
      {{.top_k = -1}, {"--top-k", "-1"}},
      {{.top_p = 0}, {"--top-p", "0"}},
      {{.top_p = 1.01}, {"--top-p", "1.01"}},
      {{.top_p = kNan}, {"--top-p", "nan"}},
  };
  for (const auto& wrong : cases)
    EXPECT_THAT([&] { Sampler sampler(wrong.first); }, fails_with(wrong.second));
}

}  // namespace
}  // namespace dos::generate::sampler_test

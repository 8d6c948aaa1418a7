// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dos::random_test {
namespace {

// Known answers of Random123 1.14 (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, MatchesKnownAnswers) {
  const std::array<std::uint32_t, 4> zero{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(Philox(0).block(0, 0), zero);
  const std::array<std::uint32_t, 4> ones{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  EXPECT_EQ(Philox(~std::uint64_t{0}).block(~std::uint64_t{0}, ~std::uint64_t{0}), ones);
}

// Mean and variance of n samples have standard errors 1/sqrt(n) and sqrt(2/n); five of them are
// allowed.
TEST(Philox, NormalHasMeanZeroAndVarianceOne) {
  constexpr int kSamples = 1 << 18;
  const Philox random(42);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double x = random.normal(static_cast<std::uint64_t>(i), 7);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kSamples, 0.0, 5.0 / std::sqrt(kSamples));
  EXPECT_NEAR(squares / kSamples, 1.0, 5.0 * std::sqrt(2.0 / kSamples));
}

TEST(Philox, UniformStaysInTheUnitInterval) {
  const Philox random(1);
  double sum = 0;
  constexpr int kSamples = 1 << 16;
  for (int i = 0; i < kSamples; ++i) {
    const double x = random.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
  }
  EXPECT_NEAR(sum / kSamples, 0.5, 5.0 / std::sqrt(12.0 * kSamples));
}

TEST(Permutation, VisitsEveryIndexOnce) {
  for (const Index size : {1, 2, 3, 4, 5, 17, 1000, 4096, 4097}) {
    const Permutation permutation(size, 99);
    std::vector<int> seen(static_cast<std::size_t>(size), 0);
    for (Index i = 0; i < size; ++i) ++seen[static_cast<std::size_t>(permutation(i))];
    for (const int count : seen) ASSERT_EQ(count, 1) << "size " << size;
  }
}

TEST(Permutation, DependsOnTheKey) {
  const Permutation a(1000, 1);
  const Permutation b(1000, 2);
  int equal = 0;
  for (Index i = 0; i < 1000; ++i) equal += a(i) == b(i) ? 1 : 0;
  EXPECT_LT(equal, 20);  // 1 is expected by chance
}

}  // namespace
}  // namespace dos::random_test

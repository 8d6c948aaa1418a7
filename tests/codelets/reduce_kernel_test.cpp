// SPDX-License-Identifier: Apache-2.0
#include "codelets/reduce/reduce.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "kernel_test.hpp"

namespace dos::test::reduce_kernel_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Squares of FP32 numbers are exact in FP64; each addition rounds by 2^-53.
TEST(SumOfSquaresKernel, MatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const Index count : {0, 1, 2, 7, 15, 16, 17, 33, 1000, 100003}) {
      const Input<T> x(random_values(count, 1, 3.0F));
      long double expected = 0;
      for (const float each : x.exact()) expected += static_cast<long double>(each) * each;
      EXPECT_NEAR(simd::dispatch(isa,
                                 [&]<simd::Isa kIsa>() {
                                   return codelets::sum_of_squares_cpu<kIsa>(count, x.elements());
                                 }),
                  static_cast<double>(expected),
                  static_cast<double>(expected) * static_cast<double>(count) * 0x1p-53);
    }
  });
}

TEST(SumOfSquaresKernel, HoldsTheLargestAndTheSmallestNumbers) {
  for_each_isa([](simd::Isa isa) {
    const std::vector<float> large(19, std::numeric_limits<float>::max());
    const double square = std::pow(static_cast<double>(large[0]), 2);
    EXPECT_NEAR(simd::dispatch(isa,
                               [&]<simd::Isa kIsa>() {
                                 return codelets::sum_of_squares_cpu<kIsa>(19, large.data());
                               }),
                19 * square, 19 * square * 19 * 0x1p-53);
    const std::vector<float> small(19, std::numeric_limits<float>::denorm_min());
    EXPECT_EQ(simd::dispatch(isa,
                             [&]<simd::Isa kIsa>() {
                               return codelets::sum_of_squares_cpu<kIsa>(19, small.data());
                             }),
              19 * 0x1p-298);
  });
}

TEST(SumOfSquaresKernel, ShowsBadElements) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const std::size_t place : {0U, 17U, 36U}) {
      Input<T> x(std::vector<float>(37, 1.0F));
      x.set(place, kNan);
      EXPECT_TRUE(std::isnan(simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        return codelets::sum_of_squares_cpu<kIsa>(37, x.elements());
      })));
      x.set(place, -std::numeric_limits<float>::infinity());
      EXPECT_EQ(simd::dispatch(isa,
                               [&]<simd::Isa kIsa>() {
                                 return codelets::sum_of_squares_cpu<kIsa>(37, x.elements());
                               }),
                kInfinity);
    }
  });
}

TEST(CombineNorm, WithoutGradientsIsZeroAndDoesNotClip) {
  const auto result = codelets::combine_norm({}, 1.0F, 1.0F);
  EXPECT_EQ(result.norm, 0.0);
  EXPECT_EQ(result.factor, 1.0F);
}

TEST(CombineNorm, ClipsOnlyLargerNorms) {
  const std::array sums{9.0, 16.0};
  EXPECT_EQ(codelets::combine_norm(sums, 10.0F, 1.0F).norm, 5.0);
  EXPECT_EQ(codelets::combine_norm(sums, 10.0F, 1.0F).factor, 1.0F);
  EXPECT_EQ(codelets::combine_norm(sums, 0.0F, 1.0F).factor, 1.0F);
  EXPECT_EQ(codelets::combine_norm(sums, -1.0F, 1.0F).factor, 1.0F);
  // One rounding to FP32.
  EXPECT_NEAR(codelets::combine_norm(sums, 1.0F, 1.0F).factor, 1.0 / (5.0 + 1e-6), 0.2 * kEps);
  EXPECT_LT(codelets::combine_norm(sums, 5.0F, 1.0F).factor, 1.0F);
}

TEST(CombineNorm, ABadNormSkipsThisStepAndAllLaterOnes) {
  for (const double bad : {kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    for (const float limit : {0.0F, 1.0F}) {
      const std::array sums{1.0, bad};
      const auto result = codelets::combine_norm(sums, limit, 1.0F);
      EXPECT_FALSE(std::isfinite(result.norm));
      EXPECT_TRUE(std::isnan(result.factor));
    }
  }
  const std::array good{1.0};
  const auto later = codelets::combine_norm(good, 1.0F, kNan);
  EXPECT_EQ(later.norm, 1.0);
  EXPECT_TRUE(std::isnan(later.factor));
}

TEST(CombineNorm, FollowsTheOrderGiven) {
  const std::array ascending{1.0, 0x1p53, 1.0};
  const std::array grouped{1.0, 1.0, 0x1p53};
  EXPECT_EQ(codelets::combine_norm(ascending, 0, 1).norm, std::sqrt(0x1p53 + 0.0 + 0.0));
  EXPECT_EQ(codelets::combine_norm(grouped, 0, 1).norm, std::sqrt(0x1p53 + 2.0));
}

}  // namespace
}  // namespace dos::test::reduce_kernel_test

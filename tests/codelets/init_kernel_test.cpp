// SPDX-License-Identifier: Apache-2.0
#include "codelets/init/init.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernel_test.hpp"

namespace dos::test::init_kernel_test {
namespace {

TEST(InitKernel, FillWritesEveryElementAndNoOther) {
  for (const Index count : {0, 1, 17, 1000}) {
    Guarded<float> out(count);
    codelets::fill_cpu(count, 0.25F, out.get());
    for (const float each : out.view()) EXPECT_EQ(each, 0.25F);
  }
}

TEST(InitKernel, NumbersAreTheSameHoweverTheTensorIsCut) {
  constexpr Index kCount = 101;
  for (const auto kind : {codelets::Distribution::kNormal, codelets::Distribution::kUniform}) {
    Guarded<float> whole(kCount);
    codelets::init_random_cpu({5, 9, 0, 0.02F, kind}, kCount, whole.get());
    for (const Index cut : {0, 1, 50, 101}) {
      Guarded<float> left(cut);
      Guarded<float> right(kCount - cut);
      codelets::init_random_cpu({5, 9, 0, 0.02F, kind}, cut, left.get());
      codelets::init_random_cpu({5, 9, cut, 0.02F, kind}, kCount - cut, right.get());
      const auto at = static_cast<std::size_t>(cut);
      EXPECT_TRUE(same_bits(left.view(), whole.view().first(at)));
      EXPECT_TRUE(same_bits(right.view(), whole.view().subspan(at)));
    }
  }
}

TEST(InitKernel, UniformLiesBetweenItsBounds) {
  constexpr Index kCount = 10'000;
  std::vector<float> values(kCount);
  codelets::init_random_cpu({5, 9, 0, 0.25F, codelets::Distribution::kUniform}, kCount,
                            values.data());
  double sum = 0;
  for (const float value : values) {
    ASSERT_TRUE(value >= -0.25F && value < 0.25F) << value;
    sum += static_cast<double>(value);
  }
  // Of 10^4 such numbers the mean has a deviation of 0.25 / sqrt(3) / 100, and the largest of them
  // lies within a thousandth of its bound but for one seed in e^10.
  EXPECT_NEAR(sum / kCount, 0, 5 * 0.25 / std::sqrt(3.0) / 100);
  EXPECT_GT(*std::max_element(values.begin(), values.end()), 0.25F * 0.998F);
  EXPECT_EQ(values[7], 0.25F * static_cast<float>(2 * Philox(5).uniform(7, 9) - 1));
}

TEST(InitKernel, NormalFollowsSeedStreamAndDeviation) {
  float value = 0;
  codelets::init_random_cpu({5, 9, 3, 2.0F}, 1, &value);
  EXPECT_EQ(value, 2.0F * Philox(5).normal(3, 9));
  float other = 0;
  codelets::init_random_cpu({5, 8, 3, 2.0F}, 1, &other);
  EXPECT_NE(value, other);
  codelets::init_random_cpu({4, 9, 3, 2.0F}, 1, &other);
  EXPECT_NE(value, other);
}

TEST(InitKernel, WorkingParametersAreRoundedToNearestEven) {
  const std::vector<float> x{1.0F, 0x1.01p0F, 0x1.03p0F, -0x1.010002p0F, 0.0F, -0.0F};
  Guarded<BF16> w(std::ssize(x));
  codelets::round_cpu(std::ssize(x), x.data(), w.get());
  const std::vector<float> expected{1.0F, 1.0F, 0x1.04p0F, -0x1.02p0F, 0.0F, -0.0F};
  for (Index i = 0; i < std::ssize(x); ++i)
    EXPECT_EQ(w[i], to_bf16(expected[static_cast<std::size_t>(i)])) << i;
}

}  // namespace
}  // namespace dos::test::init_kernel_test

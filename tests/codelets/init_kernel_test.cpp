// SPDX-License-Identifier: Apache-2.0
#include "codelets/init/init.hpp"

#include <gtest/gtest.h>

#include "kernel_test.hpp"

namespace dos::test {
namespace {

TEST(InitKernel, FillWritesEveryElementAndNoOther) {
  for (const Index count : {0, 1, 17, 1000}) {
    Guarded<float> out(count);
    codelets::fill_cpu(count, 0.25F, out.get());
    for (const float each : out.view()) EXPECT_EQ(each, 0.25F);
  }
}

TEST(InitKernel, NormalIsTheSameHoweverTheTensorIsCut) {
  constexpr Index kCount = 101;
  Guarded<float> whole(kCount);
  codelets::init_normal_cpu({.seed = 5, .stream = 9, .first_index = 0, .deviation = 0.02F}, kCount,
                            whole.get());
  for (const Index cut : {0, 1, 50, 101}) {
    Guarded<float> left(cut);
    Guarded<float> right(kCount - cut);
    codelets::init_normal_cpu({5, 9, 0, 0.02F}, cut, left.get());
    codelets::init_normal_cpu({5, 9, cut, 0.02F}, kCount - cut, right.get());
    const auto at = static_cast<std::size_t>(cut);
    EXPECT_TRUE(same_bits(left.view(), whole.view().first(at)));
    EXPECT_TRUE(same_bits(right.view(), whole.view().subspan(at)));
  }
}

TEST(InitKernel, NormalFollowsSeedStreamAndDeviation) {
  float value = 0;
  codelets::init_normal_cpu({5, 9, 3, 2.0F}, 1, &value);
  EXPECT_EQ(value, 2.0F * Philox(5).normal(3, 9));
  float other = 0;
  codelets::init_normal_cpu({5, 8, 3, 2.0F}, 1, &other);
  EXPECT_NE(value, other);
  codelets::init_normal_cpu({4, 9, 3, 2.0F}, 1, &other);
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
}  // namespace dos::test

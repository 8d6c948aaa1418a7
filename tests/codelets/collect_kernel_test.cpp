// SPDX-License-Identifier: Apache-2.0
#include "codelets/collect/collect.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernel_test.hpp"

namespace dos::test::collect_kernel_test {
namespace {

constexpr Index kCounts[] = {0, 1, 2, 15, 16, 17, 33, 1000};

// A sum in double rounds to what one addition in FP32 gives: equality.
TEST(AddGradientKernel, AddsWithOneRounding) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const Index count : kCounts) {
      const Input<T> x(random_values(count, 1, 3.0F));
      const std::vector<float> before = random_values(count, 2, 2.0F);
      std::vector<float> sum = before;
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::add_gradient_cpu<kIsa>(count, false, x.elements(), sum.data());
      });
      for (std::size_t i = 0; i < sum.size(); ++i)
        EXPECT_EQ(sum[i], static_cast<float>(double{before[i]} + double{x.exact()[i]}));
    }
  });
}

TEST(AddGradientKernel, TheFirstReplacesWhateverIsThere) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const Index count : kCounts) {
      const Input<T> x(random_values(count, 1, 3.0F));
      std::vector<float> sum(static_cast<std::size_t>(count) + 1,
                             std::numeric_limits<float>::quiet_NaN());
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::add_gradient_cpu<kIsa>(count, true, x.elements(), sum.data());
      });
      for (std::size_t i = 0; i + 1 < sum.size(); ++i) EXPECT_EQ(sum[i], x.exact()[i]);
      EXPECT_TRUE(std::isnan(sum.back())) << "behind the end";
    }
  });
}

TEST(AddGradientKernel, ShowsBadElements) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    Input<T> x(std::vector<float>(37, 1.0F));
    x.set(17, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> sum(37, 1.0F);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::add_gradient_cpu<kIsa>(37, false, x.elements(), sum.data());
    });
    EXPECT_TRUE(std::isnan(sum[17]));
    EXPECT_EQ(sum[16], 2.0F);
  });
}

}  // namespace
}  // namespace dos::test::collect_kernel_test

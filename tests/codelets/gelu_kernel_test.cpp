// SPDX-License-Identifier: Apache-2.0
#include "codelets/gelu/gelu.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel_test.hpp"
#include "reference/gelu.hpp"

namespace dos::test::gelu_kernel_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr Index kCounts[] = {0, 1, 3, 15, 16, 17, 63, 1000, 4097};

std::vector<float> inputs(Index count) {
  std::vector<float> x = random_values(count, 11, 3.0F);
  const float special[] = {0.0F, -0.0F, 1e-30F, -1e-30F, -5.0F, -9.9F, -10.1F, 12.0F, -1e4F, 1e4F};
  for (std::size_t i = 0; i < std::min(x.size() / 2, std::size(special)); ++i)
    x[2 * i] = special[i];
  return x;
}

// u' = 2u takes 7 roundings of half an eps, all terms of one sign, so e^(-u') is off by
// (3.5 |u'| + 1.5) eps relative, and so is at most its share of the sigmoid; 1 + e, the division
// and the rest add 2 eps. The floor is what the reference loses in 1 + tanh, and underflow below
// e^-87.
TEST(GeluKernel, ForwardMatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const Index count : kCounts) {
      const Input<T> x(inputs(count));
      std::vector<double> value;
      std::vector<double> tolerance;
      for (const float each : x.exact()) {
        const double u = 2 * std::abs(reference::gelu_argument(each));
        value.push_back(reference::gelu(each));
        tolerance.push_back(std::abs(value.back()) * (3.5 * u + 3.5) * kEps +
                            std::abs(each) * 0x1p-52);
      }
      Guarded<T> y(count);
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::gelu_forward_cpu<kIsa>(count, x.elements(), y.get());
      });
      expect_within<T>(y.view(), value, tolerance);
    }
  });
}

// The sigmoid s appears once in the first term and e^(-u') three times in the second: three times
// the error of the forward pass, plus 12 roundings.
TEST(GeluKernel, BackwardMatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const Index count : kCounts) {
      const Input<T> x(inputs(count));
      const Input<T> dy(random_values(count, 12));
      std::vector<double> value;
      std::vector<double> tolerance;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double u = std::min(2 * std::abs(reference::gelu_argument(x[i])), 90.0);
        const double sigmoid = 0.5 * (1 + std::tanh(reference::gelu_argument(x[i])));
        const double derivative = reference::gelu_derivative(x[i]);
        const double magnitude = sigmoid + std::abs(derivative - sigmoid);
        value.push_back(dy[i] * derivative);
        tolerance.push_back(std::abs(dy[i]) *
                            (magnitude * (10.5 * u + 12) * kEps + (1 + std::abs(x[i])) * 0x1p-52));
      }
      Guarded<T> out(dy.view());
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::gelu_backward_cpu<kIsa>(count, x.elements(), out.get());
      });
      expect_within<T>(out.view(), value, tolerance);
    }
  });
}

TEST(GeluKernel, BadInputsGiveBadOutputs) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    Input<T> x(std::vector<float>(33, 1.0F));
    x.set(1, kNan);
    x.set(20, kInfinity);
    x.set(32, -kInfinity);
    Guarded<T> y(33);
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::gelu_forward_cpu<kIsa>(33, x.elements(), y.get());
    });
    Guarded<T> dy(33, element<T>(1.0F));
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::gelu_backward_cpu<kIsa>(33, x.elements(), dy.get());
    });
    for (Index i = 0; i < 33; ++i) {
      const bool bad = i == 1 || i == 20 || i == 32;
      EXPECT_EQ(std::isfinite(to_float(y[i])), !bad) << i;
      EXPECT_EQ(std::isnan(to_float(dy[i])), bad) << i;
    }
    Guarded<T> bad_gradient(33, element<T>(kNan));
    simd::dispatch(isa, [&]<simd::Isa kIsa>() {
      codelets::gelu_backward_cpu<kIsa>(33, Input<T>(random_values(33, 1)).elements(),
                                        bad_gradient.get());
    });
    for (const T each : bad_gradient.view()) EXPECT_TRUE(std::isnan(to_float(each)));
  });
}

}  // namespace
}  // namespace dos::test::gelu_kernel_test

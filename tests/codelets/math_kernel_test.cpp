// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "exponentials.hpp"
#include "kernel_test.hpp"

namespace dos::test::math_kernel_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float exponential_of(float x, auto isa) {
  float y = 0;
  exponentials<decltype(isa)::value>(1, &x, &y);
  return y;
}

// Odd, so that the patterns walked over differ in their low bits too.
constexpr std::uint32_t kStride = 127;
constexpr Index kBatch = 4099;

/// Largest error, in ulp of the exact result, over the patterns first, first + kStride, ...
double largest_error(std::span<const float> x, std::span<const float> y) {
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    if (!(exact >= 0x1p-124 && exact <= std::numeric_limits<float>::max())) continue;
    const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
    largest = std::max(largest, std::abs(static_cast<double>(y[i]) - exact) / ulp);
  }
  return largest;
}

// 1.5 ulp: the bound derived in math.hpp.
TEST(Exponential, IsWithinOneAndAHalfUlp) {
  for_each_compiled_isa([]<simd::Isa isa>() {
    std::vector<float> x(kBatch);
    std::vector<float> y(kBatch);
    double largest = 0;
    for (std::uint64_t pattern = 0; pattern < (1ULL << 32U); pattern += kStride * kBatch) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(pattern + i * kStride));
      }
      exponentials<isa>(kBatch, x.data(), y.data());
      largest = std::max(largest, largest_error(x, y));
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(std::isnan(x[i]), std::isnan(y[i])) << x[i];
        ASSERT_TRUE(!(x[i] < -87.0F) || y[i] == 0.0F) << x[i];
        ASSERT_TRUE(!(x[i] > 88.73F) || y[i] == kInfinity) << x[i];
      }
    }
    EXPECT_LE(largest, 1.5);
    RecordProperty(simd::name_of(isa), std::to_string(largest));
  });
}

TEST(Exponential, KeepsSpecialValues) {
  for_each_compiled_isa([]<simd::Isa isa>() {
    constexpr std::integral_constant<simd::Isa, isa> tag;
    EXPECT_EQ(exponential_of(0.0F, tag), 1.0F);
    EXPECT_EQ(exponential_of(-0.0F, tag), 1.0F);
    EXPECT_EQ(exponential_of(std::numeric_limits<float>::denorm_min(), tag), 1.0F);
    EXPECT_EQ(exponential_of(-kInfinity, tag), 0.0F);
    EXPECT_EQ(exponential_of(std::numeric_limits<float>::lowest(), tag), 0.0F);
    EXPECT_EQ(exponential_of(kInfinity, tag), kInfinity);
    EXPECT_EQ(exponential_of(std::numeric_limits<float>::max(), tag), kInfinity);
    EXPECT_TRUE(std::isnan(exponential_of(std::numeric_limits<float>::quiet_NaN(), tag)));
    EXPECT_TRUE(std::isnan(exponential_of(-std::numeric_limits<float>::quiet_NaN(), tag)));
  });
}

TEST(Exponential, IsNeverDenormal) {
  for_each_compiled_isa([]<simd::Isa isa>() {
    constexpr std::integral_constant<simd::Isa, isa> tag;
    for (float x = -86.0F; x > -90.0F; x = std::nextafterf(x, -100.0F) - 1e-4F) {
      const float y = exponential_of(x, tag);
      ASSERT_TRUE(y == 0.0F || y >= std::numeric_limits<float>::min()) << x << " gives " << y;
    }
  });
}

/// Calls check(x, y) for patterns first, first + kStride, ... up to last, computed by whole
/// vectors.
template <class Compute, class Check>
void for_patterns(std::uint64_t first, std::uint64_t last, const Compute& compute,
                  const Check& check) {
  constexpr Index kVectors = 4096;
  std::vector<float> x(kVectors);
  std::vector<float> y(kVectors);
  for (std::uint64_t pattern = first; pattern < last; pattern += kStride * kVectors) {
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(pattern + i * kStride));
    compute(kVectors, x.data(), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) check(x[i], y[i]);
  }
}

// 1.25 ulp: the bound derived in vectors.hpp, for what is below 127.
TEST(PowerOfTwo, IsWithinItsBound) {
  for_each_compiled_isa([]<simd::Isa isa>() {
    double largest = 0;
    for_patterns(0, 1ULL << 32U, powers_of_two<isa>, [&](float x, float y) {
      if (x >= 127.0F) return;
      ASSERT_EQ(std::isnan(x), std::isnan(y)) << x;
      ASSERT_TRUE(!(x < -125.0F) || y == 0.0F) << x << " gives " << y;
      if (!(x >= -125.0F)) return;
      const double exact = std::exp2(static_cast<double>(x));
      const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
      largest = std::max(largest, std::abs(static_cast<double>(y) - exact) / ulp);
    });
    EXPECT_LE(largest, 1.25);
    RecordProperty(simd::name_of(isa), std::to_string(largest));
  });
}

// A weight of the largest score is 1, one that is hidden is 0.
TEST(PowerOfTwo, IsExactWhereItMustBe) {
  for_each_compiled_isa([]<simd::Isa isa>() {
    std::vector<float> x(16, -kInfinity);
    x[0] = 0.0F;
    x[1] = -0.0F;
    x[2] = -3.0F;
    std::vector<float> expected(16, 0.0F);
    expected[0] = expected[1] = 1.0F;
    expected[2] = 0.125F;
    std::vector<float> y(16);
    powers_of_two<isa>(16, x.data(), y.data());
    EXPECT_EQ(y, expected);
  });
}

// From 1 to infinity and NaN.
TEST(Logarithm, IsWithinItsBound) {
  for_each_compiled_isa([]<simd::Isa isa>() {
    double largest = 0;
    for_patterns(0x3F800000U, 0x7FC00000U, logarithms<isa>, [&](float x, float y) {
      if (!std::isfinite(x)) {
        ASSERT_EQ(std::isnan(x), std::isnan(y));
        ASSERT_TRUE(std::isnan(x) || y == kInfinity);
        return;
      }
      const double exact = std::log(static_cast<double>(x));
      largest = std::max(largest, std::abs(static_cast<double>(y) - exact) / std::max(1.0, exact));
    });
    EXPECT_LE(largest, 0x1p-23);
    RecordProperty(simd::name_of(isa), std::to_string(largest * 0x1p23));
  });
}

}  // namespace
}  // namespace dos::test::math_kernel_test

// SPDX-License-Identifier: Apache-2.0
#include "base/quantity.hpp"

#include <gtest/gtest.h>

#include <type_traits>

namespace dos::units::quantity_test {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};

static_assert(std::is_same_v<decltype(Bytes{1} / BytesPerSecond{1}), Seconds>);
static_assert(std::is_same_v<decltype(Params{1} * BytesPerParam{1}), Bytes>);
static_assert(std::is_same_v<decltype(Bytes{1} / Bytes{1}), double>);
static_assert(!Addable<Bytes, Seconds>);
static_assert(!std::is_convertible_v<double, Bytes>);

TEST(Quantity, ComputesInBaseUnits) {
  EXPECT_DOUBLE_EQ((gigabytes(24) / gigabytes_per_second(48)).value(), 0.5);
  EXPECT_DOUBLE_EQ((Params(2e9) / gparams_per_second(8)).value(), 0.25);
  EXPECT_DOUBLE_EQ(microseconds(3).value(), 3e-6);
  EXPECT_DOUBLE_EQ((2.0 * Bytes{3} + Bytes{1} - Bytes{2}).value(), 5);
}

TEST(Quantity, Compares) {
  EXPECT_LT(Bytes{1}, Bytes{2});
  EXPECT_EQ(Bytes{}, Bytes{0});
}

}  // namespace
}  // namespace dos::units::quantity_test

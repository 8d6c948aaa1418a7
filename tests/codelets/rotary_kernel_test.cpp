// SPDX-License-Identifier: Apache-2.0
#include "codelets/rotary/rotary.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel_test.hpp"
#include "rotary_cases.hpp"

namespace dos::test::rotary_kernel_test {
namespace {

using codelets::RotaryShape;

template <class T>
void run(simd::Isa isa, const RotaryShape& s, T* x) {
  simd::dispatch(isa, [&]<simd::Isa kIsa>() { codelets::rotary_cpu<kIsa>(s, x); });
}

TEST(RotaryKernel, MatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const RotaryShape& s : rotary_shapes()) {
      SCOPED_TRACE(name_of(s));
      const Input<T> x(random_values(s.sequences * s.tokens * s.stride, 1));
      Guarded<T> y(x.view());
      run(isa, s, y.get());
      const reference::Bounded expected = expected_rotation(s, x.data());
      expect_close<T>(y.view(), expected, kRotaryFactor);
    }
  });
}

TEST(RotaryKernel, OneBadInputSpoilsItsPairAlone) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    const RotaryShape s{1, 3, 2, 10, 24, kUsualSpeed, false};
    Input<T> x(random_values(3 * 24, 1));
    x.set(24 + 10 + 2, std::numeric_limits<float>::quiet_NaN());
    Guarded<T> y(x.view());
    run(isa, s, y.get());
    for (Index i = 0; i < 72; ++i)
      EXPECT_EQ(std::isnan(to_float(y[i])), i == 24 + 12 || i == 24 + 17) << i;
  });
}

}  // namespace
}  // namespace dos::test::rotary_kernel_test

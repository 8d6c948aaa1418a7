// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/bf16.hpp"
#include "base/types.hpp"

/// Mathematics for the kernels that are compiled once per instruction set. Everything is `static`:
/// with external linkage the linker would keep one copy of each function, perhaps the one with
/// vectors that this processor does not have. For the same reason those files use no function
/// templates of the standard library.
namespace dos::simd {

/// e^x, branch-free so that loops over it vectorise. Error below 1.5 ulp for results of 2^-125 and
/// above; smaller results, and -inf, give 0 (never a denormal: those slow every later operation
/// down); +inf from the overflow threshold on; NaN stays NaN.
///
/// Method: Cody & Waite, "Software manual for the elementary functions" (1980), chapter 6:
/// x = n ln 2 + r with ln 2 in two parts, so that n times the high part is exact; then
/// e^r = 1 + r + r^2 q(r), q the polynomial of degree 4 that minimises the largest relative error
/// of e^r on |r| <= ln(2)/2 (Remez; 3.7e-9 with coefficients rounded to FP32), then the scaling by
/// 2^n. Error in ulp of a result in [1/2, 1), the worse half: r 0.25, q 0.25, r + r^2 q 0.25, the
/// last addition 0.5, fit 0.06.
[[gnu::always_inline]] static inline float exponential(float x) {
  constexpr float kLog2E = 0x1.715476p+0F;
  constexpr float kLn2High = 0x1.62e4p-1F;
  constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  constexpr float kRounder = 0x1.8p+23F;  // adding it rounds to an integer, kept in the low bits
  constexpr float kSmallest = -86.64F;    // n >= -125 above it
  constexpr float kLargest = 89.0F;       // e^89 overflows, and n <= 128

  const float bounded = kLargest < x ? kLargest : x;
  const float shifted = bounded * kLog2E + kRounder;
  const float n = shifted - kRounder;
  const float r = (bounded - n * kLn2High) - n * kLn2Low;
  float q = 0x1.6a23dp-10F;
  q = q * r + 0x1.123a2p-7F;
  q = q * r + 0x1.5558f2p-5F;
  q = q * r + 0x1.555492p-3F;
  q = q * r + 0x1.fffffcp-2F;
  const float fraction = (q * (r * r) + r) + 1.0F;
  // 2^(n-1), as n = 128 has no FP32 power of two of its own.
  const std::uint32_t exponent = __builtin_bit_cast(std::uint32_t, shifted) + 126U;
  const float half_scale = __builtin_bit_cast(float, exponent << 23U);
  const float result = (fraction + fraction) * half_scale;
  return x < kSmallest ? 0.0F : result;
}

/// The largest of x[0 .. count-1], -inf for none. NaNs may be passed over.
template <class T>
[[gnu::always_inline]] static inline float maximum(Index count, const T* x) {
  // Lanes by hand: clang 14 does not vectorise a maximum that respects NaN as a reduction.
  constexpr Index kLanes = 16;
  float lanes[kLanes];
  for (Index lane = 0; lane < kLanes; ++lane) lanes[lane] = -__builtin_inff();
  Index first = 0;
  for (; first + kLanes <= count; first += kLanes) {
#pragma omp simd
    for (Index lane = 0; lane < kLanes; ++lane) {
      const float value = to_float(x[first + lane]);
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
  }
  for (Index lane = 0; first + lane < count; ++lane) {
    const float value = to_float(x[first + lane]);
    lanes[lane] = value > lanes[lane] ? value : lanes[lane];
  }
  for (Index half = kLanes / 2; half > 0; half /= 2) {
    for (Index lane = 0; lane < half; ++lane) {
      lanes[lane] = lanes[lane + half] > lanes[lane] ? lanes[lane + half] : lanes[lane];
    }
  }
  return lanes[0];
}

/// x[i] = e^(x[i] - shift); returns their sum.
[[gnu::always_inline]] static inline float exponentials(Index count, float shift, float* x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < count; ++i) {
    const float e = exponential(x[i] - shift);
    x[i] = e;
    sum += e;
  }
  return sum;
}

}  // namespace dos::simd

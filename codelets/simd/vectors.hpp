// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "base/types.hpp"
#include "codelets/simd/isa.hpp"

/// Vectors as values, for kernels that hold sums in registers across loops; other kernels are plain
/// loops. All is `static`, for the reason that math.hpp gives.
namespace dos::simd {

/// Floats that fill a register of the instruction set, and integers of the same size.
template <Isa>
struct Vectors {
  static constexpr Index kLanes = 4;
  using Floats [[gnu::vector_size(16)]] = float;
  using Integers [[gnu::vector_size(16)]] = std::int32_t;
  using Words [[gnu::vector_size(16)]] = std::uint32_t;
};
template <>
struct Vectors<Isa::kAvx2> {
  static constexpr Index kLanes = 8;
  using Floats [[gnu::vector_size(32)]] = float;
  using Integers [[gnu::vector_size(32)]] = std::int32_t;
  using Words [[gnu::vector_size(32)]] = std::uint32_t;
};
template <>
struct Vectors<Isa::kAvx512> {
  static constexpr Index kLanes = 16;
  using Floats [[gnu::vector_size(64)]] = float;
  using Integers [[gnu::vector_size(64)]] = std::int32_t;
  using Words [[gnu::vector_size(64)]] = std::uint32_t;
};

/// From and to memory of any alignment.
template <class V>
[[gnu::always_inline]] static inline V load(const void* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
template <class V>
[[gnu::always_inline]] static inline void store(void* to, V value) {
  __builtin_memcpy(to, &value, sizeof value);
}

template <class V>
[[gnu::always_inline]] static inline V larger(V a, V b) {
  return a > b ? a : b;
}

/// Four floats each from first, first + stride, ...: as many as fill a vector.
template <class V>
[[gnu::always_inline]] static inline typename V::Floats load_quarters(const float* first,
                                                                      Index stride) {
  using Four = Vectors<Isa::kPortable>::Floats;
  if constexpr (V::kLanes == 4) {
    return load<Four>(first);
  } else {
    const auto two = [](const float* a, const float* b) {
      return __builtin_shufflevector(load<Four>(a), load<Four>(b), 0, 1, 2, 3, 4, 5, 6, 7);
    };
    const auto low = two(first, first + stride);
    if constexpr (V::kLanes == 8)
      return low;
    else
      return __builtin_shufflevector(low, two(first + 2 * stride, first + 3 * stride), 0, 1, 2, 3,
                                     4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
}

/// Of each four lanes of a, and of b, those that the numbers say: 0 to 3 are of a, 4 to 7 of b.
template <int k0, int k1, int k2, int k3, class Floats, int... kLane>
[[gnu::always_inline]] static inline Floats pick(Floats a, Floats b,
                                                 std::integer_sequence<int, kLane...>) {
  constexpr int kFrom[] = {k0, k1, k2, k3};
  constexpr int kLanes = sizeof...(kLane);
  return __builtin_shufflevector(
      a, b, (kLane / 4 * 4 + kFrom[kLane % 4] % 4 + kFrom[kLane % 4] / 4 * kLanes)...);
}

/// Transposes what four lanes of four vectors are, for each four of them.
template <class V>
[[gnu::always_inline]] static inline void transpose_quarters(typename V::Floats (&rows)[4]) {
  constexpr std::make_integer_sequence<int, static_cast<int>(V::kLanes)> lanes;
  const auto low01 = pick<0, 4, 1, 5>(rows[0], rows[1], lanes);
  const auto low23 = pick<0, 4, 1, 5>(rows[2], rows[3], lanes);
  const auto high01 = pick<2, 6, 3, 7>(rows[0], rows[1], lanes);
  const auto high23 = pick<2, 6, 3, 7>(rows[2], rows[3], lanes);
  rows[0] = pick<0, 1, 4, 5>(low01, low23, lanes);
  rows[1] = pick<2, 3, 6, 7>(low01, low23, lanes);
  rows[2] = pick<0, 1, 4, 5>(high01, high23, lanes);
  rows[3] = pick<2, 3, 6, 7>(high01, high23, lanes);
}

/// 2^x for x below 127. Error below 1.25 ulp for results of 2^-125 and above; smaller results, and
/// -inf, give 0, never a denormal; NaN stays NaN.
///
/// Method: x = n + r, exactly, with |r| <= 1/2; 2^r = 1 + r q(r), q the polynomial of degree 5 with
/// FP32 coefficients for the least relative error of 2^r (Remez, coefficients rounded one by one;
/// 3.0e-9); times 2^n, exactly. Error in ulp of a result in [1/2, 1), the worse half: the
/// roundings of q 0.25 and in it 0.1, r q 0.25 (none where the processor adds without rounding),
/// the last addition 0.5, fit 0.05.
template <class V>
[[gnu::always_inline]] static inline typename V::Floats power_of_two(typename V::Floats x) {
  using Floats = typename V::Floats;
  using Words = typename V::Words;
  constexpr float kRounder = 0x1.8p+23F;  // adding it rounds to an integer, kept in the low bits
  constexpr float kSmallest = -125.0F;
  const Floats shifted = x + kRounder;
  const Floats r = x - (shifted - kRounder);
  Floats q = 0x1.416b52p-13F * r + 0x1.5f082ep-10F;
  q = q * r + 0x1.3b2de0p-7F;
  q = q * r + 0x1.c6af7cp-5F;
  q = q * r + 0x1.ebfbdcp-3F;
  q = q * r + 0x1.62e430p-1F;
  // A product, though adding to the exponent would do: it keeps NaN.
  const Words scale = (reinterpret_cast<Words>(shifted) + 127U) << 23U;
  const Floats result = (q * r + 1.0F) * reinterpret_cast<Floats>(scale);
  return x < kSmallest ? Floats{} : result;
}

/// The natural logarithm of x, a number from 1 on. Error below 2^-23 max(1, log x); infinity and
/// NaN stay what they are.
///
/// Method: x = 2^e m, 2/3 <= m < 4/3; log m = f - f^2/2 + f^3 p(f) with f = m - 1, exactly, and p
/// the polynomial of degree 7 with FP32 coefficients for the least relative error of log m (Remez,
/// coefficients rounded one by one; 4.7e-9). Error in units of 2^-24 (largest term below 1): f^2/2
/// and its p 0.2, f + (...) 0.5, e ln 2 0.5 a unit of the result, the last addition 0.5.
template <class V>
[[gnu::always_inline]] static inline typename V::Floats logarithm(typename V::Floats x) {
  using Floats = typename V::Floats;
  using Integers = typename V::Integers;
  using Words = typename V::Words;
  constexpr std::uint32_t kTwoThirds = 0x3F2AAAABU;
  constexpr float kLn2 = 0x1.62e430p-1F;
  const Words bits = reinterpret_cast<Words>(x);
  const Words exponent = (bits - kTwoThirds) >> 23U;
  const Floats e = __builtin_convertvector(reinterpret_cast<Integers>(exponent), Floats);
  const Floats f = reinterpret_cast<Floats>(bits - (exponent << 23U)) - 1.0F;
  Floats p = 0x1.1e6d16p-3F - 0x1.07c506p-3F * f;
  p = p * f - 0x1.f33278p-4F;
  p = p * f + 0x1.1ed55ap-3F;
  p = p * f - 0x1.559c68p-3F;
  p = p * f + 0x1.99d050p-3F;
  p = p * f - 0x1.fffefap-3F;
  p = p * f + 0x1.555506p-2F;
  const Floats log = e * kLn2 + ((p * f - 0.5F) * (f * f) + f);
  return x < __builtin_inff() ? log : x;
}

}  // namespace dos::simd

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/bf16.hpp"

/// Elements of activations, working parameters and gradients: FP32 or BF16 in memory, FP32 in
/// arithmetic. Kernels load them with to_float() (base/bf16.hpp) and store them with put().
namespace dos::simd {

[[gnu::always_inline]] static inline void put(float* to, float value) {
  *to = value;
}
/// Rounds to nearest, ties to even.
[[gnu::always_inline]] static inline void put(BF16* to, float value) {
  *to = to_bf16(value);
}

/// Whether elements of type T are rounded when they are stored.
template <class T>
inline constexpr bool kIsRounded = false;
template <>
inline constexpr bool kIsRounded<BF16> = true;

}  // namespace dos::simd

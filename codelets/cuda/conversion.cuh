// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/bf16.hpp"
#include "base/types.hpp"
#include "codelets/cuda/instructions.cuh"

/// FP32 to the type of an array, with the bits of to_bf16() (base/bf16.hpp): NaN stays NaN, quiet,
/// with its sign and the upper bits of its fraction. The instruction makes one NaN of all.
namespace dos::codelets::cuda {

__device__ __forceinline__ bool is_nan(float value) {
  return value != value;
}

template <class T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (sizeof(T) == sizeof(BF16))
    return is_nan(value) ? to_bf16(value)
                         : BF16{static_cast<std::uint16_t>(cvt_bf16x2(0.0F, value))};
  else
    return value;
}

/// values as BF16, two in each of `pairs`, the first one below. NaNs are looked for once for all.
template <Index kPairs>
__device__ __forceinline__ void to_bf16_pairs(const float (&values)[2 * kPairs],
                                              std::uint32_t (&pairs)[kPairs]) {
  bool has_nan = false;
#pragma unroll
  for (Index i = 0; i < kPairs; ++i) {
    pairs[i] = cvt_bf16x2(values[2 * i + 1], values[2 * i]);
    has_nan |= is_nan(values[2 * i]) || is_nan(values[2 * i + 1]);
  }
  if (!has_nan) return;
#pragma unroll
  for (Index i = 0; i < kPairs; ++i)
    pairs[i] = to_bf16(values[2 * i]).bits |
               static_cast<std::uint32_t>(to_bf16(values[2 * i + 1]).bits) << 16U;
}

/// a / b, rounded once; for BF16, whose rounding is far coarser, off by an FP32 rounding or two
/// more, and 0 where b is above 2^126.
template <class T>
__device__ __forceinline__ float quotient(float a, float b) {
  if constexpr (sizeof(T) == sizeof(BF16))
    return a * approximate_reciprocal(b);
  else
    return a / b;
}

/// 1 / sqrt(x), likewise.
template <class T>
__device__ __forceinline__ float inverse_root(float x) {
  if constexpr (sizeof(T) == sizeof(BF16))
    return rsqrtf(x);
  else
    return 1.0F / sqrtf(x);
}

}  // namespace dos::codelets::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "codelets/cuda/conversion.cuh"
#include "codelets/cuda/kernel_launch.cuh"

namespace dos::codelets::cuda {

/// kCount neighbouring elements in registers.
template <class T, Index kCount>
struct Elements;

template <Index kCount>
struct alignas(kCount * sizeof(float)) Elements<float, kCount> {
  float at[kCount];

  __device__ __forceinline__ float get(Index k) const { return at[k]; }
  __device__ __forceinline__ float element(Index k) const { return at[k]; }
  __device__ __forceinline__ void put(Index k, float value) { at[k] = value; }
  /// Element k becomes value_of(k).
  template <class F>
  __device__ __forceinline__ void fill(F&& value_of) {
#pragma unroll
    for (Index k = 0; k < kCount; ++k) at[k] = value_of(k);
  }
};

template <Index kCount>
struct alignas(kCount * sizeof(BF16)) Elements<BF16, kCount> {
  std::uint32_t pairs[kCount / 2];  ///< the first of each in the lower half

  __device__ __forceinline__ float get(Index k) const {
    const std::uint32_t pair = pairs[k / 2];
    return __builtin_bit_cast(float, k % 2 == 0 ? pair << 16U : pair & 0xFFFF0000U);
  }
  __device__ __forceinline__ BF16 element(Index k) const {
    return {static_cast<std::uint16_t>(pairs[k / 2] >> (k % 2 * 16))};
  }
  __device__ __forceinline__ void put(Index k, BF16 value) {
    const std::uint32_t other = pairs[k / 2] & (k % 2 == 0 ? 0xFFFF0000U : 0xFFFFU);
    pairs[k / 2] = other | static_cast<std::uint32_t>(value.bits) << (k % 2 * 16);
  }
  template <class F>
  __device__ __forceinline__ void fill(F&& value_of) {
    float values[kCount];
#pragma unroll
    for (Index k = 0; k < kCount; ++k) values[k] = value_of(k);
    to_bf16_pairs<kCount / 2>(values, pairs);
  }
};

/// The same, read and written at once: a word, or half of one beside words of FP32.
template <class T, Index kCount = kPack<T>>
struct Pack : Elements<T, kCount> {
  using Whole = std::conditional_t<kCount * sizeof(T) == kWord, uint4, uint2>;
  static_assert(sizeof(Whole) == kCount * sizeof(T));

  __device__ __forceinline__ void load(const T* from) {
    *reinterpret_cast<Whole*>(this) = *reinterpret_cast<const Whole*>(from);
  }
  /// Of what the kernel does not write: may be read before what it writes first.
  __device__ __forceinline__ void load_constant(const T* from) {
    *reinterpret_cast<Whole*>(this) = __ldg(reinterpret_cast<const Whole*>(from));
  }
  __device__ __forceinline__ void store(T* to) const {
    *reinterpret_cast<Whole*>(to) = *reinterpret_cast<const Whole*>(this);
  }

  /// The same where only `left` elements may be there, or the address is no multiple of 16 bytes;
  /// what is not there reads as 0.
  __device__ __forceinline__ void load(const T* from, Index left, bool words) {
    if (words && left >= kCount) return load(from);
    *this = {};
#pragma unroll
    for (Index k = 0; k < kCount; ++k) this->put(k, k < left ? from[k] : T{});
  }
  __device__ __forceinline__ void store(T* to, Index left, bool words) const {
    if (words && left >= kCount) return store(to);
#pragma unroll
    for (Index k = 0; k < kCount; ++k)
      if (k < left) to[k] = this->element(k);
  }
};

}  // namespace dos::codelets::cuda

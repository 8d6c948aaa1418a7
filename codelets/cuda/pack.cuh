// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/cuda/kernel_launch.cuh"

namespace dos::codelets::cuda {

/// kPack neighbouring elements, read and written 16 bytes at a time.
template <class T>
struct alignas(16) Pack {
  T at[kPack];

  __device__ __forceinline__ void load(const T* from) {
    static_assert(sizeof(Pack) == kPack * sizeof(T));
#pragma unroll
    for (Index i = 0; i < Index{sizeof(Pack)} / kWord; ++i)
      reinterpret_cast<uint4*>(at)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  __device__ __forceinline__ void store(T* to) const {
#pragma unroll
    for (Index i = 0; i < Index{sizeof(Pack)} / kWord; ++i)
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(at)[i];
  }

  /// The same where only `left` elements may be there, or the address is no multiple of 16 bytes;
  /// what is not there reads as 0.
  __device__ __forceinline__ void load(const T* from, Index left, bool words) {
    if (words && left >= kPack) return load(from);
#pragma unroll
    for (Index k = 0; k < kPack; ++k) at[k] = k < left ? from[k] : T{};
  }
  __device__ __forceinline__ void store(T* to, Index left, bool words) const {
    if (words && left >= kPack) return store(to);
#pragma unroll
    for (Index k = 0; k < kPack; ++k)
      if (k < left) to[k] = at[k];
  }

  __device__ __forceinline__ float get(Index k) const {
    return to_float(at[k]);
  }
  __device__ __forceinline__ void set(Index k, float value) {
    at[k] = from_float<T>(value);
  }
};

}  // namespace dos::codelets::cuda

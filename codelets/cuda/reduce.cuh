// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/cuda/kernel_launch.cuh"

/// Sums and maxima over threads in an order that does not depend on timing.
namespace dos::codelets::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

/// op over the lanes of a warp, in all of them.
template <int kLanes = kWarp, class V, class Op>
__device__ __forceinline__ V reduce_warp(V value, Op op) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value = op(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}

struct Add {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};

/// op over the threads of a block of kBlock threads, in all of them. May be called again at once.
template <int kBlock, class V, class Op>
__device__ __forceinline__ V reduce_block(V value, Op op) {
  if constexpr (kBlock == kWarp) {
    return reduce_warp(value, op);
  } else {
    constexpr int kWarps = kBlock / kWarp;
    __shared__ V of_warp[kWarps];
    value = reduce_warp(value, op);
    __syncthreads();
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
    __syncthreads();
    V total = of_warp[0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) total = op(total, of_warp[warp]);
    return total;
  }
}

}  // namespace dos::codelets::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/bf16.hpp"
#include "codelets/cuda/kernel_launch.hpp"

namespace dos::codelets::cuda {

/// Blocks that fill the current device a few times over; the rest is the grid-stride loop's.
inline unsigned blocks_for(Index items, Index per_block) {
  int device = 0;
  int processors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  return static_cast<unsigned>(grid_blocks(items, per_block, kBlocksPerProcessor * processors));
}

/// Null, or what was wrong with the launches since the last call.
inline const char* launch_fault() {
  const cudaError_t result = cudaGetLastError();
  return result == cudaSuccess ? nullptr : cudaGetErrorString(result);
}

inline __device__ Index global_thread() {
  return Index{blockIdx.x} * blockDim.x + threadIdx.x;
}
inline __device__ Index global_threads() {
  return Index{gridDim.x} * blockDim.x;
}

/// Calls f(float{}) or f(BF16{}); says what is wrong with another type.
template <class F>
const char* with_element(DType type, F&& f) {
  switch (type) {
    case DType::kF32:
      return f(float{});
    case DType::kBF16:
      return f(BF16{});
    default:
      return "there are CUDA kernels for FP32 and BF16 alone";
  }
}

}  // namespace dos::codelets::cuda

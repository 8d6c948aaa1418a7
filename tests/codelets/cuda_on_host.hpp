// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include "base/bf16.hpp"
#include "codelets/host_block.hpp"

/// What the sources of CUDA kernels need of CUDA, for the host: cuda_to_host.py puts this header
/// before them and turns launches into calls of cuda_on_host::launch. Blocks run one after another,
/// so that what they share may be static.

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __forceinline__ inline

#define threadIdx (::cuda_on_host::thread_index())
#define blockIdx (::cuda_on_host::place.block)
#define blockDim (::cuda_on_host::place.threads)
#define gridDim (::cuda_on_host::place.grid)

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct dim3 {
  constexpr dim3(unsigned of_x = 1, unsigned of_y = 1) : x(of_x), y(of_y) {}
  unsigned x, y;
};
struct CUstream_st;
using cudaStream_t = CUstream_st*;

enum cudaError_t { cudaSuccess };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount };
inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
inline const char* cudaGetErrorString(cudaError_t /*error*/) {
  return "";
}
inline void cudaGetDevice(int* device) {
  *device = 0;
}
/// Few processors, so that grids are small and their loops go round.
inline void cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*which*/, int /*device*/) {
  *value = 2;
}
enum CudaCopyKind { cudaMemcpyDeviceToDevice };
inline void cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, CudaCopyKind /*kind*/,
                            cudaStream_t /*stream*/) {
  std::memcpy(to, from, bytes);
}
inline void cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t /*stream*/) {
  std::memset(to, value, bytes);
}

namespace cuda_on_host {

struct Place {
  dim3 block, threads, grid;
};
inline Place place;

inline dim3 thread_index() {
  return {static_cast<unsigned>(dos::test::HostBlock::thread()), 0};
}

/// kernel() calls the kernel with its arguments, once a thread.
inline void launch(dim3 grid, dim3 threads, std::size_t /*shared*/, cudaStream_t /*stream*/,
                   const std::function<void()>& kernel) {
  for (unsigned y = 0; y < grid.y; ++y)
    for (unsigned x = 0; x < grid.x; ++x) {
      place = {{x, y}, threads, grid};
      dos::test::HostBlock::run(static_cast<int>(threads.x), kernel);
    }
}

}  // namespace cuda_on_host

inline void __syncthreads() {
  dos::test::HostBlock::barrier();
}
inline void __syncwarp() {
  dos::test::HostBlock::sync_warp();
}
template <class V>
V __shfl_xor_sync(unsigned /*lanes*/, V value, int distance) {
  return dos::test::HostBlock::show(value)[dos::test::HostBlock::lane() ^ distance];
}
inline unsigned __ballot_sync(unsigned /*lanes*/, bool vote) {
  const auto all = dos::test::HostBlock::show(vote);
  unsigned votes = 0;
  for (int lane = 0; lane < 32; ++lane) votes |= all[lane] ? 1U << lane : 0U;
  return votes;
}
inline int __popc(unsigned bits) {
  return __builtin_popcount(bits);
}
template <class V>
V __ldg(const V* from) {
  return *from;
}
inline float __expf(float x) {
  return std::exp(x);
}
/// As wrong as CUDA's may be.
inline float rsqrtf(float x) {
  return std::nextafter(1.0F / std::sqrt(x), 2.0F);
}
/// The instructions of codelets/cuda/instructions.cuh, as the PTX ISA has them.
namespace dos::codelets::cuda {

inline std::uint32_t cvt_bf16x2(float high, float low) {
  const auto rounded = [](float x) {
    return std::uint32_t{std::isnan(x) ? std::uint16_t{0x7FFF} : to_bf16(x).bits};
  };
  return rounded(high) << 16U | rounded(low);
}
/// Off by an ulp, away from 1.
inline float approximate_reciprocal(float x) {
  constexpr float kSmallest = 0x1p-126F;
  const float inverse = 1.0F / (std::abs(x) < kSmallest ? std::copysign(0.0F, x) : x);
  if (std::abs(inverse) < kSmallest) return std::copysign(0.0F, inverse);
  return std::nextafter(inverse, std::copysign(std::abs(inverse) < 1 ? 0.0F : HUGE_VALF, inverse));
}

}  // namespace dos::codelets::cuda

inline void atomicMin(int* at, int value) {
  if (value < *at) *at = value;
}
inline void atomicMax(int* at, int value) {
  if (value > *at) *at = value;
}

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Instructions of the PTX ISA that CUDA C++ has no word for. Tests that run kernels on the host
/// bring their own, which do what the ISA says (tests/codelets/cuda_on_host.hpp).
#ifdef __CUDACC__
#include <cstdint>

namespace dos::codelets::cuda {

/// Two numbers rounded to BF16, to nearest, ties to even; every NaN becomes 0x7FFF.
__device__ __forceinline__ std::uint32_t cvt_bf16x2(float high, float low) {
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

/// 1 / x, off by an ulp at most; 0 for what would be below 2^-126.
__device__ __forceinline__ float approximate_reciprocal(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}

}  // namespace dos::codelets::cuda
#endif

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/bf16.hpp"
#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/workspace.hpp"
#include "codelets/init/init.hpp"

namespace dos::codelets {

// Exist only if kHasCudaKernels; start on the context's stream, wait for nothing, and return null
// or what CUDA says went wrong. Elements are FP32 or BF16.

/// fill_cpu (init.hpp) in device memory.
const char* fill_cuda(const CudaContext& context, DType type, Index count, float value, void* out);

/// init_normal_cpu (init.hpp) in device memory. The random words are those of the CPU; logarithm
/// and cosine are CUDA's, whose last FP64 bit may differ, and so may, rarely, the FP32 result's.
const char* init_normal_cuda(const CudaContext& context, DType type, const NormalInit& init,
                             Index count, void* out);

/// out[i] = x[i] rounded to nearest, ties to even: working parameters from the master ones.
const char* round_cuda(const CudaContext& context, Index count, const float* x, BF16* out);

}  // namespace dos::codelets

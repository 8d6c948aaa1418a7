// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/workspace.hpp"

namespace dos::codelets {

// Exist only if kHasCudaKernels; start on the context's stream, wait for nothing, and return null
// or what went wrong. All pointers are to device memory. `type` is that of x, y, dy, dx, residual,
// weight and bias, FP32 or BF16; statistics are FP32, and so are all sums.

struct LayerNormArrays {
  Index tokens;
  Index width;
  const void* x;
  const void* weight;
};

/// layernorm_forward_cpu (layernorm.hpp).
const char* layernorm_forward_cuda(const CudaContext& context, DType type,
                                   const LayerNormArrays& arrays, const void* bias, void* y,
                                   float* statistics);

/// layernorm_backward_cpu (layernorm.hpp); `residual` may be null.
const char* layernorm_backward_cuda(const CudaContext& context, DType type,
                                    const LayerNormArrays& arrays, const float* statistics,
                                    const void* dy, const void* residual, void* dx);

/// layernorm_backward_weight_cpu (layernorm.hpp); the gradients' type is FP32 or BF16. `weight` is
/// not read. The order of the additions depends on the sizes alone.
const char* layernorm_backward_weight_cuda(const CudaContext& context, DType type, DType gradient,
                                           const LayerNormArrays& arrays, const float* statistics,
                                           const void* dy, bool accumulate, void* dweight,
                                           void* dbias);

}  // namespace dos::codelets

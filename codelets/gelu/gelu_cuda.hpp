// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/workspace.hpp"

namespace dos::codelets {

// Exist only if kHasCudaKernels; start on the context's stream, wait for nothing, and return null
// or what CUDA says went wrong. Elements are FP32 or BF16, computed in FP32.

/// gelu_forward_cpu (gelu.hpp) of arrays in device memory.
const char* gelu_forward_cuda(const CudaContext& context, DType type, Index count, const void* x,
                              void* y);

/// gelu_backward_cpu (gelu.hpp) of arrays in device memory.
const char* gelu_backward_cuda(const CudaContext& context, DType type, Index count, const void* x,
                               void* dy);

}  // namespace dos::codelets

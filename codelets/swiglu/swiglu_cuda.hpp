// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/workspace.hpp"
#include "codelets/swiglu/swiglu.hpp"

namespace dos::codelets {

// Exist only if kHasCudaKernels; start on the context's stream, wait for nothing, and return null
// or what CUDA says went wrong. Elements are FP32 or BF16, computed in FP32.

/// swiglu_forward_cpu (swiglu.hpp) of arrays in device memory.
const char* swiglu_forward_cuda(const CudaContext& context, DType type, const SwigluShape& shape,
                                const void* x, void* out);

/// swiglu_backward_cpu (swiglu.hpp) of arrays in device memory.
const char* swiglu_backward_cuda(const CudaContext& context, DType type, const SwigluShape& shape,
                                 const void* x, const void* dout, void* dx);

}  // namespace dos::codelets

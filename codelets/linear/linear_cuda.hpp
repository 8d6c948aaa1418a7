// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/workspace.hpp"
#include "codelets/linear/linear.hpp"

namespace dos::codelets {

// Exist only if kHasCudaKernels; start on the context's stream, wait for nothing, and return null
// or what went wrong. `type` is that of weights, biases and activations, FP32 or BF16; sums are
// FP32. All pointers are to device memory but the weight's list of blocks.

/// A weight in row blocks.
struct CudaWeight {
  RowBlocking blocking;
  const void* const* blocks;
};

/// linear_forward_cpu (linear.hpp). A bias that is aligned to 16 bytes, as those of layers are, is
/// added inside the product.
const char* linear_forward_cuda(const CudaContext& context, DType type, Index tokens, const void* x,
                                const CudaWeight& w, const void* bias, const void* residual,
                                void* y, Index stride);

/// linear_backward_data_cpu (linear.hpp). With BF16, dx is rounded once a block of the weight.
const char* linear_backward_data_cuda(const CudaContext& context, DType type, Index tokens,
                                      const void* dy, Index stride, const CudaWeight& w, void* dx);

/// linear_backward_weight_cpu (linear.hpp); dw is FP32 or BF16.
const char* linear_backward_weight_cuda(const CudaContext& context, DType type, DType gradient,
                                        const LinearWeightBlock& block, const void* dy,
                                        const void* x, bool accumulate, void* dw);

/// bias_backward_cpu (linear.hpp); dbias is FP32 or BF16.
const char* bias_backward_cuda(const CudaContext& context, DType type, DType gradient, Index tokens,
                               Index out, const void* dy, bool accumulate, void* dbias);

}  // namespace dos::codelets

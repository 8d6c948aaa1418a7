// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/workspace.hpp"

namespace dos::codelets {

// Exist only if kHasCudaKernels; start on the context's stream, wait for nothing, and return null
// or what went wrong. All pointers are to device memory.

/// *sum = sum of x[i]^2, FP64; x is FP32 or BF16. The order of the additions depends on `count`
/// alone.
const char* sum_of_squares_cuda(const CudaContext& context, DType type, Index count, const void* x,
                                double* sum);

/// combine_norm (reduce.hpp): *norm and *factor from the sums, which are added in the order given
/// and stay what they are; *factor holds the previous step's.
const char* combine_norm_cuda(const CudaContext& context, std::span<double* const> sums,
                              float max_norm, float* factor, double* norm);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "base/types.hpp"
#include "codelets/cuda/context.hpp"
#include "codelets/reduce/clip_factor.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// Sum of x[i]^2, accumulated in FP64; T is float or BF16. Infinite or NaN when an element is.
template <simd::Isa, class T>
double sum_of_squares_cpu(Index count, const T* x);

/// Combines the subgroups' sums of squares, in the order given. max_norm <= 0 means no clipping. A
/// norm that is not finite gives factor NaN, and so does `previous` NaN: once a step is skipped,
/// all later ones are, so that the parameters stay what they were before the first bad gradient.
ClipResult combine_norm(std::span<const double> sums, float max_norm, float previous);

/// On a GPU (cuda/context.hpp), in FP64.
const char* sum_of_squares_cuda(const CudaContext& context, DType type, Index count, const void* x,
                                double* sum);
/// The sums are numbers in buffers of their own; *factor holds the previous step's factor.
const char* combine_norm_cuda(const CudaContext& context, std::span<const double* const> sums,
                              float max_norm, float* factor, double* norm);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/matrix/row_blocks.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// y[tokens, out] = x[tokens, in] * w[out, in]^T + bias[out] + residual[tokens, out], row-major
/// FP32. `bias` and `residual` may be null. y must not overlap the inputs. One BLAS call a weight
/// block; runs on the calling thread alone. Pre: in > 0, and every size fits a BLAS integer (32
/// bits).
template <simd::Isa>
void linear_forward_cpu(Index tokens, const float* x, RowBlocks<const float> w, const float* bias,
                        const float* residual, float* y);

/// dx[tokens, in] = dy[tokens, out] * w[out, in].
template <simd::Isa>
void linear_backward_data_cpu(Index tokens, const float* dy, RowBlocks<const float> w, float* dx);

/// One row block of the weight gradient: dw[block rows, in] (+)= dy[:, block]^T * x.
/// `dy` is the whole [tokens, out] gradient; the block is named by its first row and row count.
struct LinearWeightBlock {
  Index tokens;
  Index in;
  Index out;
  Index first_row;
  Index rows;
};
template <simd::Isa>
void linear_backward_weight_cpu(const LinearWeightBlock& block, const float* dy, const float* x,
                                bool accumulate, float* dw);

/// dbias[out] (+)= sum over tokens of dy[tokens, out].
template <simd::Isa>
void bias_backward_cpu(Index tokens, Index out, const float* dy, bool accumulate, float* dbias);

}  // namespace dos::codelets

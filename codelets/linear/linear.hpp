// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "base/types.hpp"
#include "codelets/matrix/row_blocks.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// y[tokens, out] = x[tokens, in] * w[out, in]^T + bias[out] + residual[tokens, out], row-major.
/// Rows of y and residual begin `stride` elements apart; what lies behind their `out` elements is
/// left alone. `bias` and `residual` may be null. y must not overlap the inputs. Runs on the
/// calling thread alone. T is the type of activations and working parameters, float or BF16;
/// products and sums are FP32, rounded once. Pre: in > 0, and every size fits a BLAS integer (32
/// bits).
template <simd::Isa, class T>
void linear_forward_cpu(Index tokens, const T* x, RowBlocks<const T> w,
                        const std::type_identity_t<T>* bias,
                        const std::type_identity_t<T>* residual, T* y, Index stride);

/// dx[tokens, in] = dy[tokens, out] * w[out, in]. Rows of dy begin `stride` elements apart.
template <simd::Isa, class T>
void linear_backward_data_cpu(Index tokens, const T* dy, Index stride, RowBlocks<const T> w, T* dx);

/// One row block of the weight gradient: dw[block rows, in] (+)= dy[:, block]^T * x.
/// `dy` is the whole [tokens, out] gradient; the block is named by its first row and row count.
struct LinearWeightBlock {
  Index tokens;
  Index in;
  Index dy_stride;  ///< elements from the start of one row of dy to the next: at least `out`
  Index first_row;
  Index rows;
};
/// G is the type of the gradients of parameters, float or BF16; the sums are FP32.
template <simd::Isa, class T, class G>
void linear_backward_weight_cpu(const LinearWeightBlock& block, const T* dy, const T* x,
                                bool accumulate, G* dw);

/// dbias[out] (+)= sum over tokens of dy[tokens, out].
template <simd::Isa, class T, class G>
void bias_backward_cpu(Index tokens, Index out, const T* dy, bool accumulate, G* dbias);

}  // namespace dos::codelets

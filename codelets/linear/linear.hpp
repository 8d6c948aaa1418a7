// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "base/types.hpp"
#include "codelets/cuda/context.hpp"
#include "codelets/matrix/row_blocks.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

// All matrices are row-major and run on the calling thread alone. T is the type of activations and
// working parameters, G that of the parameters' gradients, each float or BF16; products and sums
// are FP32, rounded once. Pre: in > 0, and every size fits a BLAS integer (32 bits).

/// Given: x[tokens, in], the weight w[out, in] in row blocks, bias[out] and residual[tokens, out],
/// of which either may be null. Overwrites y[tokens, out] = scale * x w^T + bias + residual, which
/// must not overlap the inputs; a scale other than 1 goes with neither bias nor residual. Rows of y
/// and residual begin `stride` elements apart; what lies behind their `out` elements is left alone.
template <simd::Isa, class T>
void linear_forward_cpu(Index tokens, const T* x, RowBlocks<const T> w,
                        const std::type_identity_t<T>* bias,
                        const std::type_identity_t<T>* residual, T* y, Index stride,
                        float scale = 1);

/// The same of one token, x[in] to y[out]: each weight is read once, and not copied before, as
/// products of matrices do.
template <simd::Isa, class T>
void linear_row_cpu(const T* x, RowBlocks<const T> w, const std::type_identity_t<T>* bias,
                    const std::type_identity_t<T>* residual, T* y, float scale = 1);

/// Overwrites dx[tokens, in] = dy[tokens, out] w. Rows of dy begin `stride` elements apart.
template <simd::Isa, class T>
void linear_backward_data_cpu(Index tokens, const T* dy, Index stride, RowBlocks<const T> w, T* dx);

/// Rows first_row .. first_row + rows - 1 of a weight w[out, in], and what their product meets:
/// columns of wider arrays, x[tokens, in] and y[tokens, rows], whose rows begin so many elements
/// apart.
struct LinearPart {
  Index tokens;
  Index first_row;
  Index rows;
  Index x_stride;
  Index y_stride;
};

/// y += x w^T.
template <simd::Isa, class T>
void linear_add_part_cpu(const LinearPart& part, const T* x, RowBlocks<const T> w, T* y);

/// What becomes of a product: it is added to what is there, or multiplied by `scale` and overwrites
/// it.
struct ProductSum {
  bool accumulate = false;
  float scale = 1;
};
/// The way back: x = scale * y w, or with `accumulate` x + y w.
template <simd::Isa, class T>
void linear_backward_part_cpu(const LinearPart& part, const T* y, RowBlocks<const T> w,
                              const ProductSum& sum, T* x);

/// One row block of a weight's gradient.
struct LinearWeightBlock {
  Index tokens;
  Index in;
  Index dy_stride;  ///< elements from the start of one row of dy to the next: at least `out`
  Index first_row;
  Index rows;
  Index x_stride;  ///< as dy_stride, of x: at least `in`
};
/// Given: all of dy[tokens, out] and x[tokens, in]. dw[block.rows, in] = (the block's columns of
/// dy)^T x, or with `accumulate` dw plus that.
template <simd::Isa, class T, class G>
void linear_backward_weight_cpu(const LinearWeightBlock& block, const T* dy, const T* x,
                                bool accumulate, G* dw);

/// dbias[out] = sum over tokens of dy[tokens, out], or with `accumulate` dbias plus that.
template <simd::Isa, class T, class G>
void bias_backward_cpu(Index tokens, Index out, const T* dy, bool accumulate, G* dbias);

/// On a GPU (cuda/context.hpp); the weight's blocks are addresses in its memory. A bias that is
/// aligned to 16 bytes, as those of layers are, is added inside the product.
const char* linear_forward_cuda(const CudaContext& context, DType type, Index tokens, const void* x,
                                const RowBlocks<const void>& w, const void* bias,
                                const void* residual, void* y, Index stride, float scale = 1);
const char* linear_add_part_cuda(const CudaContext& context, DType type, const LinearPart& part,
                                 const void* x, const RowBlocks<const void>& w, void* y);

/// With BF16, dx is rounded once a block of the weight at most: blocks of fewer rows than tokens
/// are multiplied together where the workspace holds them.
const char* linear_backward_data_cuda(const CudaContext& context, DType type, Index tokens,
                                      const void* dy, Index stride, const RowBlocks<const void>& w,
                                      void* dx);
const char* linear_backward_part_cuda(const CudaContext& context, DType type,
                                      const LinearPart& part, const void* y,
                                      const RowBlocks<const void>& w, const ProductSum& sum,
                                      void* x);
const char* linear_backward_weight_cuda(const CudaContext& context, DType type, DType gradient,
                                        const LinearWeightBlock& block, const void* dy,
                                        const void* x, bool accumulate, void* dw);
const char* bias_backward_cuda(const CudaContext& context, DType type, DType gradient, Index tokens,
                               Index out, const void* dy, bool accumulate, void* dbias);

}  // namespace dos::codelets

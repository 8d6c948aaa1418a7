// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cblas.h>

#include "base/bf16.hpp"
#include "base/types.hpp"

namespace dos::codelets {

/// A row-major matrix inside a larger one: `stride` elements lie between its rows.
template <class T>
struct MatrixView {
  const T* elements;
  Index stride;
  CBLAS_TRANSPOSE transpose = CblasNoTrans;
};

/// c[rows, columns] = alpha * op(a)[rows, inner] * op(b)[inner, columns] + beta * c; with beta 0
/// what c held is not read. Pre: every size and stride fits a BLAS integer, inner > 0.
static inline void gemm(Index rows, Index columns, Index inner, float alpha, MatrixView<float> a,
                        MatrixView<float> b, float beta, float* c, Index c_stride) {
  cblas_sgemm(CblasRowMajor, a.transpose, b.transpose, static_cast<blasint>(rows),
              static_cast<blasint>(columns), static_cast<blasint>(inner), alpha, a.elements,
              static_cast<blasint>(a.stride), b.elements, static_cast<blasint>(b.stride), beta, c,
              static_cast<blasint>(c_stride));
}

/// c = op(a) op(b), added to what c held if `accumulate`.
static inline void multiply(Index rows, Index columns, Index inner, MatrixView<float> a,
                            MatrixView<float> b, bool accumulate, float* c, Index c_stride) {
  gemm(rows, columns, inner, 1.0F, a, b, accumulate ? 1.0F : 0.0F, c, c_stride);
}

/// The same of BF16 matrices: exact products, summed in FP32 (gemm_bf16.hpp). Fastest where the
/// rows of c follow each other.
void multiply(Index rows, Index columns, Index inner, MatrixView<BF16> a, MatrixView<BF16> b,
              bool accumulate, float* c, Index c_stride);

}  // namespace dos::codelets

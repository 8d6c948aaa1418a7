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

/// c[rows, columns] = op(a)[rows, inner] op(b)[inner, columns], added to what c held if
/// `accumulate`; else what it held is not read. On the calling thread alone, by the library that
/// products.hpp chooses. Pre: every size and stride fits a BLAS integer, inner > 0.
void multiply(Index rows, Index columns, Index inner, MatrixView<float> a, MatrixView<float> b,
              bool accumulate, float* c, Index c_stride);

/// The same of BF16 matrices: exact products, summed in FP32 (gemm_bf16.hpp). Fastest where the
/// rows of c follow each other.
void multiply(Index rows, Index columns, Index inner, MatrixView<BF16> a, MatrixView<BF16> b,
              bool accumulate, float* c, Index c_stride);

}  // namespace dos::codelets

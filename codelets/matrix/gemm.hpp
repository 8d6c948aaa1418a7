// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cblas.h>

#include "base/types.hpp"

namespace dos::codelets {

/// A row-major FP32 matrix inside a larger one: `stride` elements lie between its rows.
struct MatrixView {
  const float* elements;
  Index stride;
  CBLAS_TRANSPOSE transpose = CblasNoTrans;
};

/// c[rows, columns] = alpha * op(a)[rows, inner] * op(b)[inner, columns] + beta * c; with beta 0
/// what c held is not read. Pre: every size and stride fits a BLAS integer, inner > 0.
static inline void gemm(Index rows, Index columns, Index inner, float alpha, MatrixView a,
                        MatrixView b, float beta, float* c, Index c_stride) {
  cblas_sgemm(CblasRowMajor, a.transpose, b.transpose, static_cast<blasint>(rows),
              static_cast<blasint>(columns), static_cast<blasint>(inner), alpha, a.elements,
              static_cast<blasint>(a.stride), b.elements, static_cast<blasint>(b.stride), beta, c,
              static_cast<blasint>(c_stride));
}

}  // namespace dos::codelets

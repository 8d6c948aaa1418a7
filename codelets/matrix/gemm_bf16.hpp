// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/matrix/gemm.hpp"

namespace dos::codelets {

/// multiply() where oneDNN cannot (onednn.hpp): tiles of both matrices are widened to FP32,
/// exactly, and multiplied as such.
void multiply_widened(Index rows, Index columns, Index inner, MatrixView<BF16> a,
                      MatrixView<BF16> b, bool accumulate, float* c, Index c_stride);

/// A result that is rounded when it is complete takes shape in the calling thread's strip, FP32
/// memory of kStripRows x strip_columns() elements that stays in a cache.
inline constexpr Index kStripRows = 512;
Index strip_columns();
float* product_strip();

}  // namespace dos::codelets

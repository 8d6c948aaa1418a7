// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/matrix/gemm.hpp"

namespace dos::codelets {

/// multiply() where oneDNN cannot (onednn.hpp): tiles of both matrices are widened to FP32,
/// exactly, and multiplied as such.
void multiply_widened(Index rows, Index columns, Index inner, MatrixView<BF16> a,
                      MatrixView<BF16> b, bool accumulate, float* c, Index c_stride);

/// A result that is rounded when it is complete takes shape in the calling thread's strip, FP32
/// memory of this many elements that stays in the second-level cache.
inline constexpr Index kStripRows = 512;
inline constexpr Index kStripColumns = 256;
float* product_strip();

}  // namespace dos::codelets

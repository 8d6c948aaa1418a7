// SPDX-License-Identifier: Apache-2.0
#include "codelets/matrix/gemm_bf16.hpp"

#include <algorithm>

#include "codelets/matrix/onednn.hpp"
#include "codelets/matrix/products.hpp"
#include "codelets/matrix/thread_workspace.hpp"
#include "codelets/matrix/widen.hpp"

namespace dos::codelets {
namespace {

// What is widened at a time: 1 MiB of a and 2 of b, which the third-level cache holds. Narrower
// tiles of b are multiplied at a lower rate, and have a widened again more often.
constexpr Index kTileRows = 512;
constexpr Index kTileDepth = 512;
constexpr Index kTileColumns = 1024;

// Of a result that is rounded when it is complete. oneDNN's BF16 kernels read both matrices as they
// are, beside a strip that stays in the second-level cache.
constexpr Index kStripColumnsOfOneDnn = 256;

float* thread_floats(ThreadWorkspace& workspace, Index count) {
  return static_cast<float*>(workspace.at_least(static_cast<std::size_t>(count) * sizeof(float)));
}

/// Rows and columns of the matrix as it is stored, from its element `from` on.
void widen(Index rows, Index columns, const BF16* from, Index stride, float* to) {
  static const auto kernel = simd::dispatch([]<simd::Isa isa> { return &widen_cpu<isa>; });
  kernel(rows, columns, from, stride, to);
}

/// The part of op(matrix) that starts at (row, column), widened; the view of it.
MatrixView<float> widened(MatrixView<BF16> matrix, Index row, Index column, Index rows,
                          Index columns, float* to) {
  if (matrix.transpose == CblasTrans) {
    widen(columns, rows, matrix.elements + column * matrix.stride + row, matrix.stride, to);
    return {to, rows, CblasTrans};
  }
  widen(rows, columns, matrix.elements + row * matrix.stride + column, matrix.stride, to);
  return {to, columns, CblasNoTrans};
}

}  // namespace

void multiply(Index rows, Index columns, Index inner, MatrixView<BF16> a, MatrixView<BF16> b,
              bool accumulate, float* c, Index c_stride) {
  if (onednn_multiplies_bf16())
    multiply_by_onednn(rows, columns, inner, a, b, accumulate, c, c_stride);
  else
    multiply_widened(rows, columns, inner, a, b, accumulate, c, c_stride);
}

void multiply_widened(Index rows, Index columns, Index inner, MatrixView<BF16> a,
                      MatrixView<BF16> b, bool accumulate, float* c, Index c_stride) {
  thread_local ThreadWorkspace workspace;
  float* a_tile = thread_floats(workspace, (kTileRows + kTileColumns) * kTileDepth);
  float* b_tile = a_tile + kTileRows * kTileDepth;
  for (Index column = 0; column < columns; column += kTileColumns) {
    const Index tile_columns = std::min(kTileColumns, columns - column);
    for (Index k = 0; k < inner; k += kTileDepth) {
      const Index depth = std::min(kTileDepth, inner - k);
      const auto b_view = widened(b, k, column, depth, tile_columns, b_tile);
      for (Index row = 0; row < rows; row += kTileRows) {
        const Index tile_rows = std::min(kTileRows, rows - row);
        multiply(tile_rows, tile_columns, depth, widened(a, row, k, tile_rows, depth, a_tile),
                 b_view, accumulate || k > 0, c + row * c_stride + column, c_stride);
      }
    }
  }
}

Index strip_columns() {
  return onednn_multiplies_bf16() ? kStripColumnsOfOneDnn : kTileColumns;
}

float* product_strip() {
  thread_local ThreadWorkspace strip;
  return thread_floats(strip, kStripRows * strip_columns());
}

std::string bf16_products() {
  return onednn_multiplies_bf16() ? onednn_description() : fp32_products() + " in FP32";
}

}  // namespace dos::codelets

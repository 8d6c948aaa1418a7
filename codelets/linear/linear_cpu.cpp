// SPDX-License-Identifier: Apache-2.0
#include "codelets/linear/linear.hpp"

#include "codelets/matrix/gemm_bf16.hpp"
#include "codelets/simd/elements.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;
// Columns summed at a time: the accumulator and the rows being read stay in the first-level cache.
constexpr Index kStrip = 1024;

/// Part of a result: its rows and columns, and where they take shape, in FP32.
struct Part {
  Index first_row;
  Index rows;
  Index first_column;
  Index columns;
  float* sums;
  Index stride;
};

template <class T>
void load(const T* c, Index c_stride, const Part& part) {
  for (Index row = 0; row < part.rows; ++row) {
    const T* __restrict from = c + row * c_stride;
    float* __restrict to = part.sums + row * part.stride;
#pragma omp simd
    for (Index i = 0; i < part.columns; ++i) to[i] = to_float(from[i]);
  }
}

template <class T>
void store(const Part& part, T* c, Index c_stride) {
  for (Index row = 0; row < part.rows; ++row) {
    const float* __restrict from = part.sums + row * part.stride;
    T* __restrict to = c + row * c_stride;
#pragma omp simd
    for (Index i = 0; i < part.columns; ++i) simd::put(to + i, from[i]);
  }
}

void scale_by(float scale, const Part& part) {
  if (scale == 1) return;
  for (Index row = 0; row < part.rows; ++row) {
    float* __restrict sums = part.sums + row * part.stride;
#pragma omp simd
    for (Index i = 0; i < part.columns; ++i) sums[i] *= scale;
  }
}

/// Calls compute(part) for parts that together are c[rows, columns]. In FP32 that is all of c at
/// once; results that are rounded take shape in strips, which start from c if `sum.accumulate`.
template <class T, class Compute>
void for_each_part(Index rows, Index columns, T* c, Index c_stride, const ProductSum& sum,
                   const Compute& compute) {
  if constexpr (!simd::kIsRounded<T>) {
    const Part part{0, rows, 0, columns, c, c_stride};
    compute(part);
    scale_by(sum.scale, part);
  } else {
    const Index most = strip_columns();
    for (Index column = 0; column < columns; column += most) {
      const Index left = columns - column;
      const Index wide = left < most ? left : most;
      for (Index row = 0; row < rows; row += kStripRows) {
        const Index high = rows - row < kStripRows ? rows - row : kStripRows;
        const Part part{row, high, column, wide, product_strip(), wide};
        T* corner = c + row * c_stride + column;
        if (sum.accumulate) load(corner, c_stride, part);
        compute(part);
        scale_by(sum.scale, part);
        store(part, corner, c_stride);
      }
    }
  }
}

/// sums = bias + residual, either of which may be null; both point to the part's first element.
template <class T>
void start_with(const Part& part, const T* __restrict bias, const T* __restrict residual,
                Index stride) {
  for (Index t = 0; t < part.rows; ++t) {
    const T* __restrict from = residual + (residual == nullptr ? 0 : t * stride);
    float* __restrict to = part.sums + t * part.stride;
    if (bias == nullptr) {
#pragma omp simd
      for (Index i = 0; i < part.columns; ++i) to[i] = to_float(from[i]);
    } else if (residual == nullptr) {
#pragma omp simd
      for (Index i = 0; i < part.columns; ++i) to[i] = to_float(bias[i]);
    } else {
#pragma omp simd
      for (Index i = 0; i < part.columns; ++i) to[i] = to_float(bias[i]) + to_float(from[i]);
    }
  }
}

template <class T>
float dot(Index in, const T* __restrict w, const T* __restrict x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < in; ++i) sum += to_float(w[i]) * to_float(x[i]);
  return sum;
}

template <class T>
void add_four_rows(Index columns, Index width, const T* __restrict rows, float* __restrict sum) {
#pragma omp simd
  for (Index i = 0; i < columns; ++i) {
    sum[i] += (to_float(rows[i]) + to_float(rows[width + i])) +
              (to_float(rows[2 * width + i]) + to_float(rows[3 * width + i]));
  }
}

template <class T>
void add_row(Index columns, const T* __restrict row, float* __restrict sum) {
#pragma omp simd
  for (Index i = 0; i < columns; ++i) sum[i] += to_float(row[i]);
}

}  // namespace

template <simd::Isa, class T>
void linear_forward_cpu(Index tokens, const T* x, RowBlocks<const T> w,
                        const std::type_identity_t<T>* bias,
                        const std::type_identity_t<T>* residual, T* y, Index stride, float scale) {
  const Index in = w.blocking.columns;
  if (tokens == 0) return;
  const bool starts_full = bias != nullptr || residual != nullptr;
  for (Index block = 0; block < w.blocking.count(); ++block) {
    const Index first = w.blocking.first_row(block);
    const auto compute = [&](const Part& part) {
      const Index column = first + part.first_column;
      if (starts_full)
        start_with<T>(part, bias == nullptr ? nullptr : bias + column,
                      residual == nullptr ? nullptr : residual + part.first_row * stride + column,
                      stride);
      multiply(part.rows, part.columns, in, {x + part.first_row * in, in},
               {w.blocks[block] + part.first_column * in, in, CblasTrans}, starts_full, part.sums,
               part.stride);
    };
    for_each_part(tokens, w.blocking.rows_of(block), y + first, stride, {.scale = scale}, compute);
  }
}

template <simd::Isa, class T>
void linear_row_cpu(const T* x, RowBlocks<const T> w, const std::type_identity_t<T>* bias,
                    const std::type_identity_t<T>* residual, T* y, float scale) {
  const Index in = w.blocking.columns;
  for (Index block = 0; block < w.blocking.count(); ++block) {
    const Index first = w.blocking.first_row(block);
    const Index rows = w.blocking.rows_of(block);
    for (Index row = 0; row < rows; ++row) {
      const float sum = dot(in, w.blocks[block] + row * in, x);
      const float start = (bias == nullptr ? 0.0F : to_float(bias[first + row])) +
                          (residual == nullptr ? 0.0F : to_float(residual[first + row]));
      simd::put(y + first + row, start + scale * sum);
    }
  }
}

template <simd::Isa, class T>
void linear_add_part_cpu(const LinearPart& range, const T* x, RowBlocks<const T> w, T* y) {
  const Index in = w.blocking.columns;
  if (range.tokens == 0) return;
  for_each_piece(w.blocking, range.first_row, range.rows, [&](const RowPiece& piece) {
    const T* rows = w.blocks[piece.block] + piece.row * in;
    for_each_part(range.tokens, piece.rows, y + piece.first, range.y_stride, {.accumulate = true},
                  [&](const Part& part) {
                    multiply(part.rows, part.columns, in,
                             {x + part.first_row * range.x_stride, range.x_stride},
                             {rows + part.first_column * in, in, CblasTrans}, true, part.sums,
                             part.stride);
                  });
  });
}

template <simd::Isa, class T>
void linear_backward_part_cpu(const LinearPart& range, const T* y, RowBlocks<const T> w,
                              const ProductSum& sum, T* x) {
  const Index in = w.blocking.columns;
  if (range.tokens == 0) return;
  for_each_part(range.tokens, in, x, range.x_stride, sum, [&](const Part& part) {
    for_each_piece(w.blocking, range.first_row, range.rows, [&](const RowPiece& piece) {
      multiply(part.rows, part.columns, piece.rows,
               {y + part.first_row * range.y_stride + piece.first, range.y_stride},
               {w.blocks[piece.block] + piece.row * in + part.first_column, in},
               sum.accumulate || piece.first > 0, part.sums, part.stride);
    });
  });
}

template <simd::Isa, class T>
void linear_backward_data_cpu(Index tokens, const T* dy, Index stride, RowBlocks<const T> w,
                              T* dx) {
  linear_backward_part_cpu<kIsa>({tokens, 0, w.blocking.rows, w.blocking.columns, stride}, dy, w,
                                 {}, dx);
}

template <simd::Isa, class T, class G>
void linear_backward_weight_cpu(const LinearWeightBlock& block, const T* dy, const T* x,
                                bool accumulate, G* dw) {
  if (block.rows == 0) return;
  if (block.tokens == 0) {
    if (!accumulate)
      __builtin_memset(dw, 0, sizeof(G) * static_cast<std::size_t>(block.rows * block.in));
    return;
  }
  for_each_part(
      block.rows, block.in, dw, block.in, {.accumulate = accumulate}, [&](const Part& part) {
        multiply(part.rows, part.columns, block.tokens,
                 {dy + block.first_row + part.first_row, block.dy_stride, CblasTrans},
                 {x + part.first_column, block.x_stride}, accumulate, part.sums, part.stride);
      });
}

template <simd::Isa, class T, class G>
void bias_backward_cpu(Index tokens, Index out, const T* dy, bool accumulate, G* dbias) {
  for (Index first = 0; first < out; first += kStrip) {
    const Index columns = out - first < kStrip ? out - first : kStrip;
    float sum[kStrip] = {};
    Index t = 0;
    for (; t + 4 <= tokens; t += 4) add_four_rows(columns, out, dy + t * out + first, sum);
    for (; t < tokens; ++t) add_row(columns, dy + t * out + first, sum);
    for (Index i = 0; i < columns; ++i) {
      G* to = dbias + first + i;
      simd::put(to, accumulate ? to_float(*to) + sum[i] : sum[i]);
    }
  }
}

template void linear_forward_cpu<kIsa>(Index, const float*, RowBlocks<const float>, const float*,
                                       const float*, float*, Index, float);
template void linear_forward_cpu<kIsa>(Index, const BF16*, RowBlocks<const BF16>, const BF16*,
                                       const BF16*, BF16*, Index, float);
template void linear_row_cpu<kIsa>(const float*, RowBlocks<const float>, const float*, const float*,
                                   float*, float);
template void linear_row_cpu<kIsa>(const BF16*, RowBlocks<const BF16>, const BF16*, const BF16*,
                                   BF16*, float);
template void linear_add_part_cpu<kIsa>(const LinearPart&, const float*, RowBlocks<const float>,
                                        float*);
template void linear_add_part_cpu<kIsa>(const LinearPart&, const BF16*, RowBlocks<const BF16>,
                                        BF16*);
template void linear_backward_part_cpu<kIsa>(const LinearPart&, const float*,
                                             RowBlocks<const float>, const ProductSum&, float*);
template void linear_backward_part_cpu<kIsa>(const LinearPart&, const BF16*, RowBlocks<const BF16>,
                                             const ProductSum&, BF16*);
template void linear_backward_data_cpu<kIsa>(Index, const float*, Index, RowBlocks<const float>,
                                             float*);
template void linear_backward_data_cpu<kIsa>(Index, const BF16*, Index, RowBlocks<const BF16>,
                                             BF16*);
template void linear_backward_weight_cpu<kIsa>(const LinearWeightBlock&, const float*, const float*,
                                               bool, float*);
template void linear_backward_weight_cpu<kIsa>(const LinearWeightBlock&, const BF16*, const BF16*,
                                               bool, float*);
template void linear_backward_weight_cpu<kIsa>(const LinearWeightBlock&, const BF16*, const BF16*,
                                               bool, BF16*);
template void bias_backward_cpu<kIsa>(Index, Index, const float*, bool, float*);
template void bias_backward_cpu<kIsa>(Index, Index, const BF16*, bool, float*);
template void bias_backward_cpu<kIsa>(Index, Index, const BF16*, bool, BF16*);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#include "codelets/linear/linear.hpp"

#include "codelets/matrix/gemm.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;
// Columns summed at a time: the accumulator and the rows being read stay in the first-level cache.
constexpr Index kStrip = 1024;

/// y = bias + residual, either of which may be null.
void start_with(Index tokens, Index out, const float* __restrict bias,
                const float* __restrict residual, float* __restrict y) {
  for (Index t = 0; t < tokens; ++t) {
    const float* __restrict from = residual + (residual == nullptr ? 0 : t * out);
    float* __restrict to = y + t * out;
    if (bias == nullptr) {
#pragma omp simd
      for (Index i = 0; i < out; ++i) to[i] = from[i];
    } else if (residual == nullptr) {
#pragma omp simd
      for (Index i = 0; i < out; ++i) to[i] = bias[i];
    } else {
#pragma omp simd
      for (Index i = 0; i < out; ++i) to[i] = bias[i] + from[i];
    }
  }
}

void add_four_rows(Index columns, Index width, const float* __restrict rows,
                   float* __restrict sum) {
#pragma omp simd
  for (Index i = 0; i < columns; ++i) {
    sum[i] += (rows[i] + rows[width + i]) + (rows[2 * width + i] + rows[3 * width + i]);
  }
}

void add_row(Index columns, const float* __restrict row, float* __restrict sum) {
#pragma omp simd
  for (Index i = 0; i < columns; ++i) sum[i] += row[i];
}

}  // namespace

template <>
void linear_forward_cpu<kIsa>(Index tokens, const float* x, RowBlocks<const float> w,
                              const float* bias, const float* residual, float* y) {
  const Index in = w.blocking.columns;
  const Index out = w.blocking.rows;
  if (tokens == 0 || out == 0) return;
  const bool starts_full = bias != nullptr || residual != nullptr;
  if (starts_full) start_with(tokens, out, bias, residual, y);
  for (Index block = 0; block < w.blocking.count(); ++block) {
    gemm(tokens, w.blocking.rows_of(block), in, 1.0F, {x, in}, {w.blocks[block], in, CblasTrans},
         starts_full ? 1.0F : 0.0F, y + w.blocking.first_row(block), out);
  }
}

template <>
void linear_backward_data_cpu<kIsa>(Index tokens, const float* dy, RowBlocks<const float> w,
                                    float* dx) {
  const Index in = w.blocking.columns;
  const Index out = w.blocking.rows;
  if (tokens == 0) return;
  for (Index block = 0; block < w.blocking.count(); ++block) {
    gemm(tokens, in, w.blocking.rows_of(block), 1.0F, {dy + w.blocking.first_row(block), out},
         {w.blocks[block], in}, block == 0 ? 0.0F : 1.0F, dx, in);
  }
}

template <>
void linear_backward_weight_cpu<kIsa>(const LinearWeightBlock& block, const float* dy,
                                      const float* x, bool accumulate, float* dw) {
  if (block.rows == 0) return;
  if (block.tokens == 0) {
    if (!accumulate)
      __builtin_memset(dw, 0, sizeof(float) * static_cast<std::size_t>(block.rows * block.in));
    return;
  }
  gemm(block.rows, block.in, block.tokens, 1.0F, {dy + block.first_row, block.out, CblasTrans},
       {x, block.in}, accumulate ? 1.0F : 0.0F, dw, block.in);
}

template <>
void bias_backward_cpu<kIsa>(Index tokens, Index out, const float* dy, bool accumulate,
                             float* dbias) {
  for (Index first = 0; first < out; first += kStrip) {
    const Index columns = out - first < kStrip ? out - first : kStrip;
    float sum[kStrip] = {};
    Index t = 0;
    for (; t + 4 <= tokens; t += 4) add_four_rows(columns, out, dy + t * out + first, sum);
    for (; t < tokens; ++t) add_row(columns, dy + t * out + first, sum);
    for (Index i = 0; i < columns; ++i) {
      dbias[first + i] = accumulate ? dbias[first + i] + sum[i] : sum[i];
    }
  }
}

}  // namespace dos::codelets

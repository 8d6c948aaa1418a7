// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention/attention.hpp"

#include <cmath>

#include "codelets/matrix/gemm.hpp"
#include "codelets/simd/math.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;

/// Query rows first .. first + rows - 1 against the keys that any of them sees: 0 .. keys - 1.
struct Tile {
  Index first;
  Index rows;
  Index keys;
  Index stride;

  /// Keys that row `row` of the tile sees.
  [[nodiscard]] Index visible(Index row) const { return first + row + 1; }
  /// The same, up to the padding: whole vectors, so that no loop over a row has a scalar remainder.
  [[nodiscard]] Index padded(Index row) const { return attention_row_stride(visible(row)); }
};

Tile tile_at(Index first, Index tokens) {
  const Index rows = tokens - first < kAttentionRows ? tokens - first : kAttentionRows;
  return {first, rows, first + rows, attention_row_stride(first + rows)};
}

/// One head of one sequence inside [tokens, 3 * width] (q, k, v) and [tokens, width] (out) arrays.
struct Head {
  Index tokens;
  Index size;
  Index width;
  Index qkv_offset;
  Index out_offset;
  Index row_offset;
  float scale;

  Head(const AttentionShape& shape, Index sequence, Index head)
      : tokens(shape.tokens),
        size(shape.head_size),
        width(shape.heads * shape.head_size),
        qkv_offset(sequence * tokens * 3 * width + head * size),
        out_offset(sequence * tokens * width + head * size),
        row_offset((sequence * shape.heads + head) * tokens),
        scale(1.0F / __builtin_sqrtf(static_cast<float>(size))) {}

  [[nodiscard]] Index query(Index row) const { return qkv_offset + row * 3 * width; }
  [[nodiscard]] Index key(Index row) const { return query(row) + width; }
  [[nodiscard]] Index value(Index row) const { return query(row) + 2 * width; }
  [[nodiscard]] Index output(Index row) const { return out_offset + row * width; }
  [[nodiscard]] Index stride() const { return 3 * width; }
};

/// scores[tile.rows, tile.stride] = scale * q k^T, masked part included, padding untouched.
void scaled_scores(const Head& head, const Tile& tile, const float* qkv, float* scores) {
  gemm(tile.rows, tile.keys, head.size, head.scale, {qkv + head.query(tile.first), head.stride()},
       {qkv + head.key(0), head.stride(), CblasTrans}, 0.0F, scores, tile.stride);
}

void fill(float* first, float* last, float value) {
  for (; first < last; ++first) *first = value;
}

void scale_row(Index count, float factor, float* __restrict x) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) x[i] *= factor;
}

float dot(Index count, const float* __restrict a, const float* __restrict b) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// Scores to unnormalised weights; sums[tile.rows] receives each row's softmax denominator.
void softmax_numerators(const Tile& tile, float* scores, float* sums, float* logsumexp) {
  for (Index row = 0; row < tile.rows; ++row) {
    float* x = scores + row * tile.stride;
    const Index padded = tile.padded(row);
    fill(x + tile.visible(row), x + padded, -__builtin_inff());
    const float largest = simd::maximum(padded, x);
    sums[row] = simd::exponentials(padded, largest, x);
    logsumexp[tile.first + row] = largest + ::logf(sums[row]);
    fill(x + padded, x + tile.stride, 0);
  }
}

void forward_tile(const Head& head, const Tile& tile, const float* qkv, float* out,
                  float* logsumexp, float* workspace) {
  float* scores = workspace;
  float* sums = workspace + kAttentionRows * tile.stride;
  scaled_scores(head, tile, qkv, scores);
  softmax_numerators(tile, scores, sums, logsumexp + head.row_offset);
  gemm(tile.rows, head.size, tile.keys, 1.0F, {scores, tile.stride},
       {qkv + head.value(0), head.stride()}, 0.0F, out + head.output(tile.first), head.width);
  for (Index row = 0; row < tile.rows; ++row) {
    scale_row(head.size, 1.0F / sums[row], out + head.output(tile.first + row));
  }
}

/// scores -> p = e^(score - logsumexp); dp -> scale * p * (dp - delta): the gradient of q k^T.
void softmax_backward_row(Index count, float logsumexp, float delta, float scale,
                          float* __restrict scores, float* __restrict dp) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) {
    const float p = simd::exponential(scores[i] - logsumexp);
    scores[i] = p;
    dp[i] = p * (dp[i] - delta) * scale;
  }
}

void softmax_backward(const Head& head, const Tile& tile, const float* out, const float* logsumexp,
                      const float* dout, float* scores, float* dp) {
  for (Index row = 0; row < tile.rows; ++row) {
    const Index token = tile.first + row;
    const Index padded = tile.padded(row);
    float* p = scores + row * tile.stride;
    float* ds = dp + row * tile.stride;
    fill(p + tile.visible(row), p + padded, -__builtin_inff());
    fill(ds + tile.keys, ds + tile.stride, 0);
    const float delta = dot(head.size, dout + head.output(token), out + head.output(token));
    softmax_backward_row(padded, logsumexp[head.row_offset + token], delta, head.scale, p, ds);
    fill(p + padded, p + tile.stride, 0);
    fill(ds + padded, ds + tile.stride, 0);
  }
}

void backward_tile(const Head& head, const Tile& tile, const float* qkv, const float* out,
                   const float* logsumexp, const float* dout, float* dqkv, float* workspace) {
  float* p = workspace;
  float* ds = workspace + kAttentionRows * tile.stride;
  const Index stride = head.stride();
  const float* tile_dout = dout + head.output(tile.first);
  scaled_scores(head, tile, qkv, p);
  gemm(tile.rows, tile.keys, head.size, 1.0F, {tile_dout, head.width},
       {qkv + head.value(0), stride, CblasTrans}, 0.0F, ds, tile.stride);
  softmax_backward(head, tile, out, logsumexp, dout, p, ds);
  // The last tile comes first: it covers every key and overwrites what dqkv held.
  const float beta = tile.keys == head.tokens ? 0.0F : 1.0F;
  gemm(tile.keys, head.size, tile.rows, 1.0F, {p, tile.stride, CblasTrans}, {tile_dout, head.width},
       beta, dqkv + head.value(0), stride);
  gemm(tile.keys, head.size, tile.rows, 1.0F, {ds, tile.stride, CblasTrans},
       {qkv + head.query(tile.first), stride}, beta, dqkv + head.key(0), stride);
  gemm(tile.rows, head.size, tile.keys, 1.0F, {ds, tile.stride}, {qkv + head.key(0), stride}, 0.0F,
       dqkv + head.query(tile.first), stride);
}

}  // namespace

template <>
void attention_forward_cpu<kIsa>(const AttentionShape& shape, const float* qkv, float* out,
                                 float* logsumexp, float* workspace) {
  for (Index sequence = 0; sequence < shape.sequences; ++sequence) {
    for (Index h = 0; h < shape.heads; ++h) {
      const Head head(shape, sequence, h);
      for (Index first = 0; first < shape.tokens; first += kAttentionRows) {
        forward_tile(head, tile_at(first, shape.tokens), qkv, out, logsumexp, workspace);
      }
    }
  }
}

template <>
void attention_backward_cpu<kIsa>(const AttentionShape& shape, const float* qkv, const float* out,
                                  const float* logsumexp, const float* dout, float* dqkv,
                                  float* workspace) {
  const Index tiles = (shape.tokens + kAttentionRows - 1) / kAttentionRows;
  for (Index sequence = 0; sequence < shape.sequences; ++sequence) {
    for (Index h = 0; h < shape.heads; ++h) {
      const Head head(shape, sequence, h);
      for (Index tile = tiles - 1; tile >= 0; --tile) {
        backward_tile(head, tile_at(tile * kAttentionRows, shape.tokens), qkv, out, logsumexp, dout,
                      dqkv, workspace);
      }
    }
  }
}

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention/attention.hpp"

#include <cmath>

#include "codelets/matrix/gemm.hpp"
#include "codelets/simd/elements.hpp"
#include "codelets/simd/math.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;

/// Query rows first .. first + rows - 1 against the keys that any of them sees: from first_key on.
struct Tile {
  Index first;
  Index rows;
  Index first_key;
  Index keys;
  Index stride;
  Index window;

  /// Keys up to the last one that row `row` of the tile sees.
  [[nodiscard]] Index visible(Index row) const { return first - first_key + row + 1; }
  /// The same, up to the padding: whole vectors, so that no loop over a row has a scalar remainder.
  [[nodiscard]] Index padded(Index row) const { return attention_row_stride(visible(row)); }
  /// Keys before the first one that it sees.
  [[nodiscard]] Index hidden(Index row) const {
    return window != 0 && visible(row) > window ? visible(row) - window : 0;
  }
};

/// One head of one sequence.
struct Head {
  Index first;  ///< token that asks
  Index tokens;
  Index size;
  Index window;
  float scale;
};

Tile tile_at(Index first, const Head& head) {
  const Index left = head.tokens - first;
  const Index rows = left < kAttentionRows ? left : kAttentionRows;
  const Index first_key = head.window != 0 && first >= head.window ? first - head.window + 1 : 0;
  const Index keys = first + rows - first_key;
  return {first, rows, first_key, keys, attention_row_stride(keys), head.window};
}

/// Rows of a matrix inside a wider one.
template <class T>
struct Rows {
  T* first;
  Index stride;

  [[nodiscard]] T* operator[](Index row) const { return first + row * stride; }
};

/// q, k and v of one head, or their gradients: [tokens, size] each, in the same rows.
template <class T>
struct Triple {
  T* queries;
  T* keys;
  T* values;
  Index stride;

  [[nodiscard]] Rows<T> query() const { return {queries, stride}; }
  [[nodiscard]] Rows<T> key() const { return {keys, stride}; }
  [[nodiscard]] Rows<T> value() const { return {values, stride}; }
};

/// One head in the arrays of the whole model.
struct Place {
  Index width;
  Index key_width;
  Index query_offset;
  Index key_offset;
  Index out_offset;
  Index row_offset;
  bool is_first;  ///< of those that share keys and values
  bool is_last;

  Place(const AttentionShape& shape, Index sequence, Index head)
      : width(shape.width()),
        key_width(shape.key_width()),
        query_offset(sequence * shape.tokens * shape.qkv_width() + head * shape.head_size),
        key_offset(sequence * shape.tokens * shape.qkv_width() + width +
                   head / shape.group() * shape.head_size),
        out_offset(sequence * shape.queries() * width + head * shape.head_size),
        row_offset((sequence * shape.heads + head) * shape.queries()),
        is_first(head % shape.group() == 0),
        is_last(head % shape.group() == shape.group() - 1) {}

  template <class T>
  [[nodiscard]] Triple<T> triple(T* qkv) const {
    return {qkv + query_offset, qkv + key_offset, qkv + key_offset + key_width,
            width + 2 * key_width};
  }
  template <class T>
  [[nodiscard]] Rows<T> rows(T* out) const {
    return {out + out_offset, width};
  }
};

void fill(float* first, float* last, float value) {
  for (; first < last; ++first) *first = value;
}

void scale_row(Index count, float factor, float* __restrict x) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) x[i] *= factor;
}

void add_row(Index count, float factor, const float* __restrict x, float* __restrict sum) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) sum[i] += factor * x[i];
}

float dot(Index count, const float* __restrict a, const float* __restrict b) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// scores[tile.rows, tile.stride] = scale * q k^T, masked part included, padding untouched.
void scaled_scores(const Head& head, const Tile& tile, const Triple<const float>& qkv,
                   float* scores) {
  gemm(tile.rows, tile.keys, head.size, head.scale, {qkv.query()[tile.first], qkv.stride},
       {qkv.key()[tile.first_key], qkv.stride, CblasTrans}, 0.0F, scores, tile.stride);
}

/// The same of one row, which asks alone: each key is read once, and not copied before.
void scaled_row(const Head& head, const Tile& tile, const Triple<const float>& qkv, float* scores) {
  for (Index key = 0; key < tile.keys; ++key)
    scores[key] =
        head.scale * dot(head.size, qkv.query()[tile.first], qkv.key()[tile.first_key + key]);
}

/// out = the values under the weights.
void weighted_values(const Head& head, const Tile& tile, const Triple<const float>& qkv,
                     const float* weights, float* out) {
  fill(out, out + head.size, 0);
  for (Index key = 0; key < tile.keys; ++key)
    add_row(head.size, weights[key], qkv.value()[tile.first_key + key], out);
}

/// Scores to unnormalised weights; sums[tile.rows] receives each row's softmax denominator, and
/// logsumexp[tile.rows] its logarithm.
void softmax_numerators(const Tile& tile, float* scores, float* sums, float* logsumexp) {
  for (Index row = 0; row < tile.rows; ++row) {
    float* x = scores + row * tile.stride;
    const Index padded = tile.padded(row);
    fill(x, x + tile.hidden(row), -__builtin_inff());
    fill(x + tile.visible(row), x + padded, -__builtin_inff());
    const float largest = simd::maximum(padded, x);
    sums[row] = simd::exponentials(padded, largest, x);
    logsumexp[row] = largest + ::logf(sums[row]);
    fill(x + padded, x + tile.stride, 0);
  }
}

/// out and logsumexp of the head's queries.
void forward_tile(const Head& head, const Tile& tile, const Triple<const float>& qkv,
                  const Rows<float>& out, float* logsumexp, float* workspace) {
  float* scores = workspace;
  float* sums = workspace + kAttentionRows * tile.stride;
  const Index query = tile.first - head.first;
  const bool is_alone = head.first > 0 && tile.rows == 1;
  if (is_alone)
    scaled_row(head, tile, qkv, scores);
  else
    scaled_scores(head, tile, qkv, scores);
  softmax_numerators(tile, scores, sums, logsumexp + query);
  if (is_alone)
    weighted_values(head, tile, qkv, scores, out[query]);
  else
    gemm(tile.rows, head.size, tile.keys, 1.0F, {scores, tile.stride},
         {qkv.value()[tile.first_key], qkv.stride}, 0.0F, out[query], out.stride);
  for (Index row = 0; row < tile.rows; ++row)
    scale_row(head.size, 1.0F / sums[row], out[query + row]);
}

void forward_head(const Head& head, const Triple<const float>& qkv, const Rows<float>& out,
                  float* logsumexp, float* workspace) {
  for (Index first = head.first; first < head.tokens; first += kAttentionRows)
    forward_tile(head, tile_at(first, head), qkv, out, logsumexp, workspace);
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

/// What backward reads and writes of a head, in FP32.
struct HeadGradients {
  Rows<const float> out;
  Rows<const float> dout;
  Triple<float> dqkv;
  bool adds;  ///< to the gradients of keys and values
};

void softmax_backward(const Head& head, const Tile& tile, const HeadGradients& g,
                      const float* logsumexp, float* scores, float* dp) {
  for (Index row = 0; row < tile.rows; ++row) {
    const Index token = tile.first + row;
    const Index padded = tile.padded(row);
    float* p = scores + row * tile.stride;
    float* ds = dp + row * tile.stride;
    fill(p, p + tile.hidden(row), -__builtin_inff());
    fill(p + tile.visible(row), p + padded, -__builtin_inff());
    fill(ds + tile.keys, ds + tile.stride, 0);
    const float delta = dot(head.size, g.dout[token], g.out[token]);
    softmax_backward_row(padded, logsumexp[token], delta, head.scale, p, ds);
    fill(p + padded, p + tile.stride, 0);
    fill(ds + padded, ds + tile.stride, 0);
  }
}

void backward_tile(const Head& head, const Tile& tile, const Triple<const float>& qkv,
                   const float* logsumexp, const HeadGradients& g, float* workspace) {
  float* p = workspace;
  float* ds = workspace + kAttentionRows * tile.stride;
  const Rows<float> dkey = g.dqkv.key();
  const Rows<float> dvalue = g.dqkv.value();
  const Rows<float> dquery = g.dqkv.query();
  scaled_scores(head, tile, qkv, p);
  gemm(tile.rows, tile.keys, head.size, 1.0F, {g.dout[tile.first], g.dout.stride},
       {qkv.value()[tile.first_key], qkv.stride, CblasTrans}, 0.0F, ds, tile.stride);
  softmax_backward(head, tile, g, logsumexp, p, ds);
  // The last tile comes first: if it covers every key, it overwrites what dqkv held.
  const float beta = !g.adds && tile.keys == head.tokens ? 0.0F : 1.0F;
  gemm(tile.keys, head.size, tile.rows, 1.0F, {p, tile.stride, CblasTrans},
       {g.dout[tile.first], g.dout.stride}, beta, dvalue[tile.first_key], dvalue.stride);
  gemm(tile.keys, head.size, tile.rows, 1.0F, {ds, tile.stride, CblasTrans},
       {qkv.query()[tile.first], qkv.stride}, beta, dkey[tile.first_key], dkey.stride);
  gemm(tile.rows, head.size, tile.keys, 1.0F, {ds, tile.stride},
       {qkv.key()[tile.first_key], qkv.stride}, 0.0F, dquery[tile.first], dquery.stride);
}

void backward_head(const Head& head, const Triple<const float>& qkv, const float* logsumexp,
                   HeadGradients g, float* workspace) {
  // With a window no tile covers every key.
  if (!g.adds && head.window != 0 && head.window < head.tokens) {
    for (Index token = 0; token < head.tokens; ++token) {
      fill(g.dqkv.key()[token], g.dqkv.key()[token] + head.size, 0);
      fill(g.dqkv.value()[token], g.dqkv.value()[token] + head.size, 0);
    }
    g.adds = true;
  }
  const Index tiles = (head.tokens + kAttentionRows - 1) / kAttentionRows;
  for (Index tile = tiles - 1; tile >= 0; --tile)
    backward_tile(head, tile_at(tile * kAttentionRows, head), qkv, logsumexp, g, workspace);
}

/// A head's copies in FP32, behind the tiles of the work space: rows without gaps.
struct Widened {
  Triple<float> qkv;
  Triple<float> dqkv;
  Rows<float> out;
  Rows<float> dout;

  Widened(const AttentionShape& shape, float* workspace)
      : qkv(triple(shape, workspace + attention_workspace(shape, DType::kF32))),
        dqkv(triple(shape, qkv.queries + 3 * shape.tokens * shape.head_size)),
        out{dqkv.queries + 3 * shape.tokens * shape.head_size, shape.head_size},
        dout{out.first + shape.tokens * shape.head_size, shape.head_size} {}

 private:
  static Triple<float> triple(const AttentionShape& shape, float* first) {
    const Index size = shape.head_size;
    return {first, first + size, first + 2 * size, 3 * size};
  }
};

template <class From, class To>
void copy(const Head& head, Index rows, const Rows<From>& from, const Rows<To>& to) {
  for (Index row = 0; row < rows; ++row) {
    const From* __restrict in = from[row];
    To* __restrict out = to[row];
#pragma omp simd
    for (Index i = 0; i < head.size; ++i) simd::put(out + i, to_float(in[i]));
  }
}

/// With keys and values if `all`.
template <class From, class To>
void copy(const Head& head, bool all, const Triple<From>& from, const Triple<To>& to) {
  copy(head, head.tokens, from.query(), to.query());
  if (!all) return;
  copy(head, head.tokens, from.key(), to.key());
  copy(head, head.tokens, from.value(), to.value());
}

Triple<const float> as_const(const Triple<float>& t) {
  return {t.queries, t.keys, t.values, t.stride};
}
Rows<const float> as_const(const Rows<float>& rows) {
  return {rows.first, rows.stride};
}

/// Calls compute(head, place) for every head of every sequence.
template <class Compute>
void for_each_head(const AttentionShape& shape, const Compute& compute) {
  const Head head{shape.first, shape.tokens, shape.head_size, shape.window,
                  1.0F / __builtin_sqrtf(static_cast<float>(shape.head_size))};
  for (Index sequence = 0; sequence < shape.sequences; ++sequence)
    for (Index h = 0; h < shape.heads; ++h) compute(head, Place(shape, sequence, h));
}

}  // namespace

template <simd::Isa, class T>
void attention_forward_cpu(const AttentionShape& shape, const T* qkv, T* out, float* logsumexp,
                           float* workspace) {
  for_each_head(shape, [&](const Head& head, const Place& place) {
    float* row_sums = logsumexp + place.row_offset;
    if constexpr (!simd::kIsRounded<T>) {
      forward_head(head, place.triple(qkv), place.rows(out), row_sums, workspace);
    } else {
      const Widened fp32(shape, workspace);
      copy(head, place.is_first, place.triple(qkv), fp32.qkv);
      forward_head(head, as_const(fp32.qkv), fp32.out, row_sums, workspace);
      copy(head, shape.queries(), fp32.out, place.rows(out));
    }
  });
}

template <simd::Isa, class T>
void attention_backward_cpu(const AttentionShape& shape, const T* qkv, const T* out,
                            const float* logsumexp, const T* dout, T* dqkv, float* workspace) {
  for_each_head(shape, [&](const Head& head, const Place& place) {
    const float* row_sums = logsumexp + place.row_offset;
    if constexpr (!simd::kIsRounded<T>) {
      backward_head(head, place.triple(qkv), row_sums,
                    {place.rows(out), place.rows(dout), place.triple(dqkv), !place.is_first},
                    workspace);
    } else {
      const Widened fp32(shape, workspace);
      copy(head, place.is_first, place.triple(qkv), fp32.qkv);
      copy(head, head.tokens, place.rows(out), fp32.out);
      copy(head, head.tokens, place.rows(dout), fp32.dout);
      backward_head(head, as_const(fp32.qkv), row_sums,
                    {as_const(fp32.out), as_const(fp32.dout), fp32.dqkv, !place.is_first},
                    workspace);
      // The gradients of keys and values are whole after the last head that shares them.
      copy(head, place.is_last, fp32.dqkv, place.triple(dqkv));
    }
  });
}

template void attention_forward_cpu<kIsa>(const AttentionShape&, const float*, float*, float*,
                                          float*);
template void attention_forward_cpu<kIsa>(const AttentionShape&, const BF16*, BF16*, float*,
                                          float*);
template void attention_backward_cpu<kIsa>(const AttentionShape&, const float*, const float*,
                                           const float*, const float*, float*, float*);
template void attention_backward_cpu<kIsa>(const AttentionShape&, const BF16*, const BF16*,
                                           const float*, const BF16*, BF16*, float*);

}  // namespace dos::codelets

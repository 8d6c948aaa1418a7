// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention/attention.hpp"

#include <cmath>

#include "codelets/attention/attention_cpu_tiles.hpp"
#include "codelets/simd/math.hpp"

namespace dos::codelets {
namespace {

/// Calls compute(tile, is_first) for the tiles that a block sees, the last first: in it each query
/// sees itself, so that its largest score is a number from the beginning.
template <class Compute>
[[gnu::always_inline]] inline void for_each_tile(const Head& head, const Block& block,
                                                 const Compute& compute) {
  const Span keys = head.sight.keys_of(block.asking);
  for (Index first = block.first; first + C::kKeys > keys.first && first >= 0; first -= C::kKeys)
    compute(tile_at(first, head), first == block.first);
}

/// The block's rows of a matrix that has one for each query; zeros for those that do not ask.
template <class T>
void copy_block(const Head& head, const Block& block, Rows<const T> from, const Rows<float>& to) {
  const Index before = block.asking.first - block.first;
  for (Index i = 0; i < before * to.stride; ++i) to.first[i] = 0;
  copy_rows(block.asking.last - block.asking.first, C::kQueries - before, head.size, from,
            Rows<float>{to[before], to.stride});
}

/// out and logsumexp of the head's queries; `queries` are those of all tokens.
template <class T>
void forward_block(const Head& head, const Buffers& b, const Block& block, Rows<const T> queries,
                   Rows<T> out, float* logsumexp) {
  copy_block(head, block, Rows<const T>{queries[block.asking.first], queries.stride}, b.queries);
  transpose<C>(C::kQueries, head.stride, head.scale * kLog2E, {b.queries.first, b.queries.stride},
               b.turned_queries);
  for_each_tile(head, block, [&](Span tile, bool is_first) {
    forward_weights(head, b, block, tile, is_first);
    add_rows_of_keys(head, b, block, tile, b.weights, b.values, is_first, true);
  });
  for (Index row = 0; row < C::kQueries; row += C::kLanes) {
    const auto sum = simd::load<Floats>(b.sums + row);
    const auto largest = simd::load<Floats>(b.largest + row);
    simd::store(b.largest + row, largest * kLn2 + simd::logarithm<C>(sum));
    simd::store(b.sums + row, 1.0F / sum);
  }
  for (Index query = block.asking.first; query < block.asking.last; ++query) {
    const Index row = query - block.first;
    logsumexp[query - head.first] = b.largest[row];
    put_row(head.size, b.sums[row], b.results[row], out[query - head.first]);
  }
}

/// Weights of a tile, and the gradients of its scores.
void backward_weights(const Head& head, const Buffers& b, const Block& block, Span tile) {
  for_each_column(head, block, tile, [&](Index column, Span queries, Span keys) {
    Floats shifts[kVectors];
    Floats deltas[kVectors];
    for (int j = 0; j < kVectors; ++j) {
      shifts[j] = simd::load<Floats>(b.largest + column + j * C::kLanes);
      deltas[j] = simd::load<Floats>(b.sums + column + j * C::kLanes);
    }
    for (Index key = keys.first; key < keys.last; key += C::kGroup) {
      const auto weights = [&](int i, int j) {
        return b.weights[key + i - tile.first] + column + j * C::kLanes;
      };
      block.ahead->step();
      Sums<C, kVectors> scores;
      compute_scores(head, b, block, column, queries, key, scores);
#pragma GCC unroll 8
      for (int i = 0; i < C::kGroup; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j)
          simd::store(weights(i, j), simd::power_of_two<C>(scores[i][j] - shifts[j]));
      }
      block.ahead->step();
      Sums<C, kVectors> gradients;
      sum_products<C, kVectors>(head.size, {b.values[key], b.values.stride, 1},
                                {b.turned_out_gradients.first + column, C::kQueries}, gradients);
#pragma GCC unroll 8
      for (int i = 0; i < C::kGroup; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j)
          simd::store(
              b.score_gradients[key + i - tile.first] + column + j * C::kLanes,
              simd::load<Floats>(weights(i, j)) * ((gradients[i][j] - deltas[j]) * head.scale));
      }
    }
  });
}

/// What backward reads and writes of one head.
template <class T>
struct HeadArrays {
  Rows<const T> queries;
  Rows<const T> out;
  Rows<const T> out_gradients;
  const float* logsumexp;
  Rows<T> query_gradients;
};

template <class T>
void backward_block(const Head& head, const Buffers& b, const Block& block, const HeadArrays<T>& a,
                    bool is_first_head) {
  const Index first = block.first;
  copy_block(head, block, Rows<const T>{a.queries[first], a.queries.stride}, b.queries);
  copy_block(head, block, Rows<const T>{a.out_gradients[first], a.out_gradients.stride},
             b.out_gradients);
  transpose<C>(C::kQueries, head.stride, head.scale * kLog2E, {b.queries.first, b.queries.stride},
               b.turned_queries);
  transpose<C>(C::kQueries, head.stride, 1, {b.out_gradients.first, b.out_gradients.stride},
               b.turned_out_gradients);
  for (Index row = 0; row < C::kQueries; ++row) {
    const Index query = first + row;
    const bool asks = query < block.asking.last;
    b.largest[row] = asks ? a.logsumexp[query] * kLog2E : 0;
    b.sums[row] = asks ? dot(head.size, b.out_gradients[row], a.out[query]) : 0;
  }
  for_each_tile(head, block, [&](Span tile, bool is_first) {
    // Nothing came before to the keys that the block is the first to see: its own.
    const Target target = is_first_head && is_first ? Target::kOverwritten : Target::kAddedTo;
    backward_weights(head, b, block, tile);
    add_rows_of_queries(head, block, tile, b.weights, b.out_gradients, target, b.value_gradients);
    add_rows_of_queries(head, block, tile, b.score_gradients, b.queries, target, b.key_gradients);
    add_rows_of_keys(head, b, block, tile, b.score_gradients, b.keys, is_first, false);
  });
  for (Index query = first; query < block.asking.last; ++query)
    put_row(head.size, 1, b.results[query - first], a.query_gradients[query]);
}

/// The only query behind keys of earlier tasks: each key and each value is read once, and nothing
/// is copied before.
template <class T>
void forward_alone(const Head& head, const T* query, Rows<const T> keys, Rows<const T> values,
                   T* out, float* logsumexp, float* workspace) {
  const Span seen = head.sight.keys_of({head.first, head.first + 1});
  const Index count = seen.last - seen.first;
  float* result = workspace;
  float* scores = workspace + head.stride;
  for (Index key = 0; key < count; ++key)
    scores[key] = head.scale * dot(head.size, query, keys[seen.first + key]);
  const float largest = simd::maximum(count, scores);
  const float sum = simd::exponentials(count, largest, scores);
  *logsumexp = largest + ::logf(sum);
  for (Index i = 0; i < head.size; ++i) result[i] = 0;
  for (Index key = 0; key < count; ++key)
    add_row(head.size, scores[key], values[seen.first + key], result);
  put_row(head.size, 1.0F / sum, result, out);
}

Head head_of(const AttentionShape& s) {
  return {{s.tokens, s.window != 0 && s.window < s.tokens ? s.window : s.tokens},
          s.first,
          s.head_size,
          rounded_up(s.head_size, C::kLanes),
          1.0F / __builtin_sqrtf(static_cast<float>(s.head_size))};
}

/// Calls compute(place, place of the next, head) for every head of queries, those of a head of keys
/// in a row. Behind the last comes itself.
template <class Compute>
void for_each_head(const AttentionShape& shape, const Compute& compute) {
  if (shape.tokens == 0) return;
  for (Index sequence = 0; sequence < shape.sequences; ++sequence)
    for (Index h = 0; h < shape.heads; ++h) {
      const bool is_last = h + 1 == shape.heads;
      const bool is_end = is_last && sequence + 1 == shape.sequences;
      compute(place_of(shape, sequence, h),
              is_end ? place_of(shape, sequence, h)
                     : place_of(shape, sequence + (is_last ? 1 : 0), is_last ? 0 : h + 1),
              h);
    }
}

template <class T>
void copy_keys(const Head& head, const Buffers& b, const Place& at, const T* qkv) {
  const Index tokens = head.sight.tokens;
  const Index padded = rounded_up(tokens, C::kGroup);
  copy_rows(tokens, padded, head.size, Rows<const T>{qkv + at.key, at.qkv_stride}, b.keys);
  copy_rows(tokens, padded, head.size, Rows<const T>{qkv + at.value, at.qkv_stride}, b.values);
}

}  // namespace

template <simd::Isa, class T>
void attention_forward_cpu(const AttentionShape& shape, const T* qkv, T* out, float* logsumexp,
                           float* workspace) {
  const Head head = head_of(shape);
  const bool is_alone = shape.first > 0 && shape.queries() == 1;
  const Index padded = rounded_up(shape.tokens, C::kGroup);
  const Buffers b(head, Room(workspace), padded);
  for_each_head(shape, [&](const Place& at, const Place& next, Index h) {
    const Rows<const T> queries{qkv + at.query, at.qkv_stride};
    const Rows<T> results{out + at.out, at.out_stride};
    if (is_alone)
      return forward_alone(head, queries[head.first], Rows<const T>{qkv + at.key, at.qkv_stride},
                           Rows<const T>{qkv + at.value, at.qkv_stride}, results[0],
                           logsumexp + at.row, workspace);
    if (h % shape.group() == 0) copy_keys(head, b, at, qkv);
    for (Index first = head.first / C::kQueries * C::kQueries; first < shape.tokens;
         first += C::kQueries) {
      Ahead ahead;
      const Block block = block_at(first, head, ahead);
      ahead.begin<T>(block.asking, head.size);
      ahead.add(qkv + next.query, at.qkv_stride);
      ahead.add(qkv + next.key, at.qkv_stride);
      ahead.add(qkv + next.value, at.qkv_stride);
      // Lines that are written are read before, too.
      if (head.first == 0) ahead.add(out + at.out, at.out_stride);
      forward_block(head, b, block, queries, results, logsumexp + at.row);
    }
  });
}

template <simd::Isa, class T>
void attention_backward_cpu(const AttentionShape& shape, const T* qkv, const T* out,
                            const float* logsumexp, const T* dout, T* dqkv, float* workspace) {
  const Head head = head_of(shape);
  const Index padded = rounded_up(shape.tokens, C::kGroup);
  const Buffers b(head, Room(workspace), padded);
  for_each_head(shape, [&](const Place& at, const Place& next, Index h) {
    const bool is_first = h % shape.group() == 0;
    if (is_first) copy_keys(head, b, at, qkv);
    const HeadArrays<T> arrays{{qkv + at.query, at.qkv_stride},
                               {out + at.out, at.out_stride},
                               {dout + at.out, at.out_stride},
                               logsumexp + at.row,
                               {dqkv + at.query, at.qkv_stride}};
    for (Index first = 0; first < shape.tokens; first += C::kQueries) {
      Ahead ahead;
      const Block block = block_at(first, head, ahead);
      ahead.begin<T>(block.asking, head.size);
      ahead.add(qkv + next.query, at.qkv_stride);
      ahead.add(qkv + next.key, at.qkv_stride);
      ahead.add(qkv + next.value, at.qkv_stride);
      // Lines that are written are read before, too.
      ahead.add(dqkv + at.query, at.qkv_stride);
      ahead.add(dqkv + at.key, at.qkv_stride);
      ahead.add(dqkv + at.value, at.qkv_stride);
      ahead.add(out + next.out, at.out_stride);
      ahead.add(dout + next.out, at.out_stride);
      backward_block(head, b, block, arrays, is_first);
    }
    // The gradients of keys and values are whole after the last head that shares them.
    if (h % shape.group() != shape.group() - 1) return;
    for (Index token = 0; token < shape.tokens; ++token) {
      put_row(head.size, 1, b.key_gradients[token], dqkv + at.key + token * at.qkv_stride);
      put_row(head.size, 1, b.value_gradients[token], dqkv + at.value + token * at.qkv_stride);
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

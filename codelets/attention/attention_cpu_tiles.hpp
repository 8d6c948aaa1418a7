// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/attention/attention_cpu_arrays.hpp"
#include "codelets/attention/attention_cpu_products.hpp"

/// Tiles of the score matrix: a block of queries by as many keys. A part of attention_cpu.cpp,
/// compiled with it once per instruction set.
namespace dos::codelets {
namespace {

using namespace attention;

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;
using C = Cut<kIsa>;
using Floats = C::Floats;

constexpr float kLog2E = 0x1.715476p+0F;
constexpr float kLn2 = 0x1.62e430p-1F;

/// Columns of a tile, queries, that are computed at a time.
constexpr int kVectors = 2;
constexpr Index kColumns = kVectors * C::kLanes;
static_assert(C::kQueries % kColumns == 0 && C::kQueries % C::kGroup == 0);
static_assert(C::kQueries <= kAttentionRows && C::kKeys == C::kQueries);

/// What the heads of a task have in common.
struct Head {
  Sight sight;
  Index first;  ///< token that asks
  Index size;
  Index stride;  ///< of a row of `size` elements in the work space
  float scale;
};

/// The work space. Tiles have a row for each key and a column for each query: what softmax does is
/// the same for all columns, and products read either of the two without moving them.
struct Buffers {
  Rows<float> keys;  ///< of a head, with zeros up to a whole group; also the next three
  Rows<float> values;
  Rows<float> key_gradients;
  Rows<float> value_gradients;
  Rows<float> queries;  ///< of a block; also the next two
  Rows<float> out_gradients;
  Rows<float> results;         ///< out, or gradients of queries
  Rows<float> turned_queries;  ///< transposed, for scores in units of ln 2
  Rows<float> turned_out_gradients;
  Rows<float> weights;  ///< a tile; also the next
  Rows<float> score_gradients;
  float*
      largest;  ///< score of each query so far; backward: the logarithm of the sum of its weights
  float* sums;  ///< of its weights; backward: of its out and their gradients' products
  float* factors;  ///< by which its weights have shrunk

  Buffers(const Head& head, Room room, Index keys_padded)
      : keys(room.rows(keys_padded, head.stride)),
        values(room.rows(keys_padded, head.stride)),
        key_gradients(room.rows(keys_padded, head.stride)),
        value_gradients(room.rows(keys_padded, head.stride)),
        queries(room.rows(C::kQueries, head.stride)),
        out_gradients(room.rows(C::kQueries, head.stride)),
        results(room.rows(C::kQueries, head.stride)),
        turned_queries(room.rows(head.stride, C::kQueries)),
        turned_out_gradients(room.rows(head.stride, C::kQueries)),
        weights(room.rows(C::kKeys, C::kQueries)),
        score_gradients(room.rows(C::kKeys, C::kQueries)),
        largest(room.take(C::kQueries)),
        sums(room.take(C::kQueries)),
        factors(room.take(C::kQueries)) {}
};

/// Queries of a block, from the first on that any block could begin with, and those of them that
/// ask.
struct Block {
  Index first;
  Span asking;
  Ahead* ahead;

  /// Of the columns from `column` on.
  [[nodiscard]] Span queries(Index column, Index count) const {
    return both({first + column, first + column + count}, asking);
  }
};

Block block_at(Index first, const Head& head, Ahead& ahead) {
  return {first, both({first, first + C::kQueries}, {head.first, head.sight.tokens}), &ahead};
}

Span tile_at(Index first, const Head& head) {
  return both({first, first + C::kKeys}, {0, head.sight.tokens});
}

/// Keys of the tile, in whole groups, whose scores with these queries are needed: also those that
/// only a neighbour sees which is in a group with the first of them.
Span groups_of(const Head& head, Span queries, Span tile) {
  const Span keys =
      both(head.sight.keys_of({queries.first / C::kGroup * C::kGroup, queries.last}), tile);
  return {keys.first / C::kGroup * C::kGroup, rounded_up(keys.last, C::kGroup)};
}

/// Calls compute(column, queries, keys) for the columns of a tile that hold queries that see keys.
template <class Compute>
[[gnu::always_inline]] inline void for_each_column(const Head& head, const Block& block, Span tile,
                                                   const Compute& compute) {
  for (Index column = 0; column < C::kQueries; column += kColumns) {
    const Span queries = block.queries(column, kColumns);
    if (queries.is_empty()) continue;
    const Span keys = groups_of(head, queries, tile);
    if (!keys.is_empty()) compute(column, queries, keys);
  }
}

/// value where query first + lane sees the key, otherwise `hidden`.
[[gnu::always_inline]] inline Floats where_seen(const Head& head, Index query, Index key,
                                                Floats value, Floats hidden) {
  using Words = C::Words;
  Words lanes;
  for (unsigned lane = 0; lane < C::kLanes; ++lane) lanes[lane] = lane;
  // Less than 0 is more than any window.
  const Words distance = lanes + static_cast<std::uint32_t>(query - key);
  return distance < static_cast<std::uint32_t>(head.sight.window) ? value : hidden;
}

/// Scores of a group of keys, those that are not seen `hidden`.
[[gnu::always_inline]] inline void compute_scores(const Head& head, const Buffers& b,
                                                  const Block& block, Index column, Span queries,
                                                  Index key, Sums<C, kVectors>& scores) {
  sum_products<C, kVectors>(head.size, {b.keys[key], b.keys.stride, 1},
                            {b.turned_queries.first + column, C::kQueries}, scores);
  if (head.sight.is_whole(queries, {key, key + C::kGroup})) return;
#pragma GCC unroll 8
  for (int i = 0; i < C::kGroup; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j)
      scores[i][j] = where_seen(head, block.first + column + j * C::kLanes, key + i, scores[i][j],
                                Floats{} - __builtin_inff());
  }
}

/// Turns the scores of a tile into weights relative to the largest so far.
void forward_weights(const Head& head, const Buffers& b, const Block& block, Span tile,
                     bool is_first) {
  for_each_column(head, block, tile, [&](Index column, Span queries, Span keys) {
    Floats before[kVectors];
    Floats most[kVectors];
    for (int j = 0; j < kVectors; ++j) {
      before[j] = simd::load<Floats>(b.largest + column + j * C::kLanes);
      most[j] = is_first ? Floats{} - __builtin_inff() : before[j];
    }
    for (Index key = keys.first; key < keys.last; key += C::kGroup) {
      block.ahead->step();
      Sums<C, kVectors> scores;
      compute_scores(head, b, block, column, queries, key, scores);
#pragma GCC unroll 8
      for (int i = 0; i < C::kGroup; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) {
          most[j] = simd::larger(scores[i][j], most[j]);
          simd::store(b.weights[key + i - tile.first] + column + j * C::kLanes, scores[i][j]);
        }
      }
    }
    Floats sums[kVectors];
    for (int j = 0; j < kVectors; ++j) {
      const Index at = column + j * C::kLanes;
      const Floats factor = simd::power_of_two<C>(before[j] - most[j]);
      sums[j] = is_first ? Floats{} : simd::load<Floats>(b.sums + at) * factor;
      simd::store(b.largest + at, most[j]);
      simd::store(b.factors + at, factor);
    }
    for (Index key = keys.first; key < keys.last; ++key) {
      float* row = b.weights[key - tile.first] + column;
      for (int j = 0; j < kVectors; ++j) {
        const Floats weight =
            simd::power_of_two<C>(simd::load<Floats>(row + j * C::kLanes) - most[j]);
        simd::store(row + j * C::kLanes, weight);
        sums[j] += weight;
      }
    }
    for (int j = 0; j < kVectors; ++j) simd::store(b.sums + column + j * C::kLanes, sums[j]);
  });
}

/// results[queries] += tile^T rows, for each group of queries; `scaled`: what they hold times the
/// factors before.
void add_rows_of_keys(const Head& head, const Buffers& b, const Block& block, Span tile,
                      const Rows<float>& scores, const Rows<float>& rows, bool is_first,
                      bool is_scaled) {
  for_columns<C>(head.stride, [&]<int kCount>(Index column) {
    for (Index query = 0; query < C::kQueries; query += C::kGroup) {
      const Span queries = block.queries(query, C::kGroup);
      if (queries.is_empty()) continue;
      const Span keys = both(head.sight.keys_of(queries), tile);
      if (keys.is_empty()) continue;
      block.ahead->step();
      const Left left{scores[keys.first - tile.first] + query, 1, scores.stride};
      const Right right{rows[keys.first] + column, rows.stride};
      float* to = b.results[query] + column;
      const Index count = keys.last - keys.first;
      if (is_scaled && !is_first)
        multiply_scaled<C, kCount>(count, left, right, b.factors + query, to, b.results.stride);
      else
        multiply<C, kCount>(count, left, right, is_first ? Target::kOverwritten : Target::kAddedTo,
                            to, b.results.stride);
    }
  });
}

/// to[keys] = tile rows, or += it, for each group of keys.
void add_rows_of_queries(const Head& head, const Block& block, Span tile, const Rows<float>& scores,
                         const Rows<float>& rows, Target target, const Rows<float>& to) {
  for_columns<C>(head.stride, [&]<int kCount>(Index column) {
    for (Index key = tile.first; key < tile.last; key += C::kGroup) {
      const Span keys = both({key, key + C::kGroup}, tile);
      const Span queries = both(head.sight.queries_of(keys), block.asking);
      if (queries.is_empty()) continue;
      const Index first = queries.first - block.first;
      block.ahead->step();
      multiply<C, kCount>(queries.last - queries.first,
                          {scores[key - tile.first] + first, scores.stride, 1},
                          {rows[first] + column, rows.stride}, target, to[key] + column, to.stride);
    }
  });
}

}  // namespace
}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <math.h>

#include "codelets/attention/attention_products.hpp"

/// Attention without the score matrix: Dao et al., "FlashAttention: Fast and Memory-Efficient Exact
/// Attention with IO-Awareness" (2022), and Dao, "FlashAttention-2" (2023): online softmax forward,
/// scores rebuilt from the log-sum-exp backward. Unlike there, the gradients of queries and those
/// of keys and values come from two passes, each of which owns what it writes: seven products
/// instead of five, no atomic additions, so the same bits every time.
namespace dos::codelets::attention {

inline constexpr float kLog2E = 1.44269504088896341F;

template <class T>
struct ForwardHead {
  HeadSize head;
  float scale;
  HeadArray<const T> q;
  HeadArray<const T> k;
  HeadArray<const T> v;
  HeadArray<T> out;
  float* logsumexp;  ///< [tokens]
};

template <class T>
struct BackwardHead {
  HeadSize head;
  float scale;
  HeadArray<const T> q;
  HeadArray<const T> k;
  HeadArray<const T> v;
  HeadArray<const T> dout;
  const float* logsumexp;  ///< [tokens]
  const float* delta;      ///< [tokens]: sums of dout * out
  HeadArray<T> dq;
  HeadArray<T> dk;
  HeadArray<T> dv;
  int group;  ///< heads of queries that share the keys and values, from this one on
};

/// The rows of this warp against one tile of columns, in 32 bits: registers are what these kernels
/// lack.
struct WarpTile {
  int rows;       ///< of the warp that exist
  int columns;    ///< of the tile that exist
  int first_row;  ///< of the warp, counted from the tile's first column
};
template <class Tiling, class Lane>
DOS_DEVICE WarpTile warp_tile(const Lane& lane, Index tokens, Index first_row, Index tile) {
  const Index row = first_row + lane.warp() * Tiling::kRowsOfWarp;
  const Index column = tile * Tiling::kColumns;
  const Index rows = tokens - row;
  const Index columns = tokens - column;
  return {static_cast<int>(rows < Tiling::kRowsOfWarp ? rows : Tiling::kRowsOfWarp),
          static_cast<int>(columns < Tiling::kColumns ? columns : Tiling::kColumns),
          static_cast<int>(row - column)};
}

/// Whether any of the warp's queries sees any of the tile's keys.
template <class Tiling>
DOS_DEVICE bool sees_keys(const WarpTile& tile, int window) {
  return tile.rows > 0 && tile.first_row + Tiling::kRowsOfWarp > 0 &&
         tile.first_row - (Tiling::kColumns - 1) < window;
}
/// f(r, half, j, e, row, column) for each number of a result that this thread holds:
/// result[r][j][2 * half + e]; row and column are counted from the tile's first column.
template <class Tiling, class Lane, class F>
DOS_DEVICE void each_number(const Lane& lane, const WarpTile& tile, F&& f) {
#pragma unroll
  for (int r = 0; r < Tiling::kRowTiles; ++r)
#pragma unroll
    for (int j = 0; j < Tiling::kColumnTiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Place place = result_place(lane.lane(), i);
        f(r, i / 2, j, i % 2, tile.first_row + 16 * r + place.row, 8 * j + place.column);
      }
}

/// Scores of what lies behind a window become -inf, where there is any: rows are queries, or, the
/// other way round, keys. Few tiles have some, so that the loops over the others know of none.
template <class Tiling, class Lane>
DOS_DEVICE void hide_keys(const Lane& lane, const WarpTile& tile, int window,
                          float (&scores)[Tiling::kRowTiles][Tiling::kColumnTiles][4]) {
  if (tile.first_row + Tiling::kRowsOfWarp <= window) return;
  each_number<Tiling>(lane, tile, [&](int r, int half, int j, int e, int row, int column) {
    if (column <= row - window) scores[r][j][2 * half + e] = -INFINITY;
  });
}
template <class Tiling, class Lane>
DOS_DEVICE void hide_queries(const Lane& lane, const WarpTile& tile, int window,
                             float (&scores)[Tiling::kRowTiles][Tiling::kColumnTiles][4]) {
  if (Tiling::kColumns - tile.first_row <= window) return;
  each_number<Tiling>(lane, tile, [&](int r, int half, int j, int e, int row, int column) {
    if (row <= column - window) scores[r][j][2 * half + e] = -INFINITY;
  });
}

/// Running maximum and denominator of each row that a thread holds a part of.
template <class Tiling>
struct Softmax {
  float largest[Tiling::kRowTiles][2];
  float sum[Tiling::kRowTiles][2];  ///< of this thread's columns
};

/// Scores become weights e^(scale (score - largest)); what was summed before is scaled down.
template <class Tiling, class Lane>
DOS_DEVICE void online_softmax(const Lane& lane, const WarpTile& tile, float scale,
                               Softmax<Tiling>& softmax,
                               float (&scores)[Tiling::kRowTiles][Tiling::kColumnTiles][4],
                               float (&out)[Tiling::kRowTiles][Tiling::kHeadTiles][4]) {
  if (tile.first_row < Tiling::kColumns - 1)
    each_number<Tiling>(lane, tile, [&](int r, int half, int j, int e, int row, int column) {
      if (column > row) scores[r][j][2 * half + e] = -INFINITY;
    });
  const float factor = scale * kLog2E;
  float shrink[Tiling::kRowTiles][2];
  bool grew = false;
#pragma unroll
  for (int r = 0; r < Tiling::kRowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = softmax.largest[r][half];
#pragma unroll
      for (int j = 0; j < Tiling::kColumnTiles; ++j)
        largest = fmaxf(largest, fmaxf(scores[r][j][2 * half], scores[r][j][2 * half + 1]));
      largest = lane.quad_max(largest);
      // A row that has seen nothing yet, as a window allows, keeps sums of 0.
      if (largest == -INFINITY) largest = 0;
      shrink[r][half] = lane.exp2((softmax.largest[r][half] - largest) * factor);
      grew = grew || shrink[r][half] != 1;
      softmax.largest[r][half] = largest;
      float sum = softmax.sum[r][half] * shrink[r][half];
#pragma unroll
      for (int j = 0; j < Tiling::kColumnTiles; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = scores[r][j][2 * half + e];
          score = lane.exp2((score - largest) * factor);
          sum += score;
        }
      softmax.sum[r][half] = sum;
    }
  // Once a row has met its large scores, nothing shrinks any more.
  if (!lane.any(grew)) return;
#pragma unroll
  for (int r = 0; r < Tiling::kRowTiles; ++r)
#pragma unroll
    for (int d = 0; d < Tiling::kHeadTiles; ++d)
#pragma unroll
      for (int i = 0; i < 4; ++i) out[r][d][i] *= shrink[r][i / 2];
}

/// Shared memory of forward_block: a tile of queries, one of keys, one of values.
template <class Tiling>
constexpr Index forward_shared_bytes() {
  return shared_bytes<Tiling>(1, 2, 0);
}

/// Queries first .. first + kRows - 1 of one head. While a product runs, the next tile is copied.
template <class Tiling, class Lane>
DOS_DEVICE void forward_block(const Lane& lane, const ForwardHead<typename Tiling::T>& p,
                              Index first, typename Tiling::T* shared) {
  auto* q = shared;
  auto* k = q + Tiling::kRowTile;
  auto* v = k + Tiling::kColumnTile;
  auto* exchange = reinterpret_cast<float*>(v + Tiling::kColumnTile);
  float out[Tiling::kRowTiles][Tiling::kHeadTiles][4] = {};
  Softmax<Tiling> softmax;
#pragma unroll
  for (int r = 0; r < Tiling::kRowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      softmax.largest[r][half] = -INFINITY;
      softmax.sum[r][half] = 0;
    }
  const TileRange tiles =
      tiles_of_keys(first, Tiling::kRows, Tiling::kColumns, p.head.tokens, p.head.window);
  load_tile<Tiling, Tiling::kRows>(lane, p.head, p.q, first, q);
  load_tile<Tiling, Tiling::kColumns>(lane, p.head, p.k, tiles.first * Tiling::kColumns, k);
#pragma unroll 1
  for (Index t = tiles.first; t < tiles.end; ++t) {
    const WarpTile tile = warp_tile<Tiling>(lane, p.head.tokens, first, t);
    const bool sees = sees_keys<Tiling>(tile, p.head.window);
    lane.wait_copies();
    lane.barrier();
    load_tile<Tiling, Tiling::kColumns>(lane, p.head, p.v, t * Tiling::kColumns, v);
    float scores[Tiling::kRowTiles][Tiling::kColumnTiles][4] = {};
    if (sees) rows_by_rows<Tiling>(lane, q, k, scores);
    lane.wait_copies();
    lane.barrier();
    if (t + 1 < tiles.end)
      load_tile<Tiling, Tiling::kColumns>(lane, p.head, p.k, (t + 1) * Tiling::kColumns, k);
    if (!sees) continue;
    hide_keys<Tiling>(lane, tile, p.head.window, scores);
    online_softmax<Tiling>(lane, tile, p.scale, softmax, scores, out);
    weights_by_rows<Tiling>(lane, scores, v, exchange, out);
  }
  float inverse[Tiling::kRowTiles][2];
#pragma unroll
  for (int r = 0; r < Tiling::kRowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = lane.quad_sum(softmax.sum[r][half]);
      inverse[r][half] = 1.0F / sum;
      const Place place = result_place(lane.lane(), 2 * half);
      const Index row = first + lane.warp() * Tiling::kRowsOfWarp + 16 * r + place.row;
      if (place.column == 0 && row < p.head.tokens)
        p.logsumexp[row] = softmax.largest[r][half] * p.scale + logf(sum);
    }
  store_rows<Tiling>(lane, p.head, p.out, first, inverse, out);
}

/// Shared memory of the backward blocks: two tiles of rows, two of columns, and what two numbers a
/// column need.
template <class Tiling>
constexpr Index backward_shared_bytes() {
  return shared_bytes<Tiling>(2, 2, 2);
}

/// scores become p = e^(scale score - logsumexp), products (of dout and v) become p (product -
/// delta), both 0 where masked; numbers(r, half, j, e) gives logsumexp and delta.
struct RowNumbers {
  float logsumexp;
  float delta;
};
template <class Tiling, class Lane, class Masked, class Numbers>
DOS_DEVICE void softmax_backward(const Lane& lane, const WarpTile& tile, float scale,
                                 Masked&& masked, Numbers&& numbers,
                                 float (&scores)[Tiling::kRowTiles][Tiling::kColumnTiles][4],
                                 float (&products)[Tiling::kRowTiles][Tiling::kColumnTiles][4]) {
  each_number<Tiling>(lane, tile, [&](int r, int half, int j, int e, int row, int column) {
    const RowNumbers n = numbers(r, half, j, e);
    float& score = scores[r][j][2 * half + e];
    float& product = products[r][j][2 * half + e];
    const float weight = lane.exp2((score * scale - n.logsumexp) * kLog2E);
    score = masked(row, column) ? 0.0F : weight;
    product = score * (product - n.delta);
  });
}

/// dq of queries first .. first + kRows - 1 of one head.
template <class Tiling, class Lane>
DOS_DEVICE void backward_queries_block(const Lane& lane, const BackwardHead<typename Tiling::T>& p,
                                       Index first, typename Tiling::T* shared) {
  auto* q = shared;
  auto* dout = q + Tiling::kRowTile;
  auto* k = dout + Tiling::kRowTile;
  auto* v = k + Tiling::kColumnTile;
  auto* exchange = reinterpret_cast<float*>(v + Tiling::kColumnTile);
  float dq[Tiling::kRowTiles][Tiling::kHeadTiles][4] = {};
  RowNumbers numbers[Tiling::kRowTiles][2];
  float factor[Tiling::kRowTiles][2];
#pragma unroll
  for (int r = 0; r < Tiling::kRowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Index row = first + lane.warp() * Tiling::kRowsOfWarp + 16 * r +
                        result_place(lane.lane(), 2 * half).row;
      const bool there = row < p.head.tokens;
      numbers[r][half] = {there ? p.logsumexp[row] : 0.0F, there ? p.delta[row] : 0.0F};
      factor[r][half] = p.scale;
    }
  const TileRange tiles =
      tiles_of_keys(first, Tiling::kRows, Tiling::kColumns, p.head.tokens, p.head.window);
  load_tile<Tiling, Tiling::kRows>(lane, p.head, p.q, first, q);
  load_tile<Tiling, Tiling::kRows>(lane, p.head, p.dout, first, dout);
  load_tile<Tiling, Tiling::kColumns>(lane, p.head, p.k, tiles.first * Tiling::kColumns, k);
  load_tile<Tiling, Tiling::kColumns>(lane, p.head, p.v, tiles.first * Tiling::kColumns, v);
#pragma unroll 1
  for (Index t = tiles.first; t < tiles.end; ++t) {
    const WarpTile tile = warp_tile<Tiling>(lane, p.head.tokens, first, t);
    const bool sees = sees_keys<Tiling>(tile, p.head.window);
    const bool more = t + 1 < tiles.end;
    lane.wait_copies();
    lane.barrier();
    float scores[Tiling::kRowTiles][Tiling::kColumnTiles][4] = {};
    float products[Tiling::kRowTiles][Tiling::kColumnTiles][4] = {};
    if (sees) {
      rows_by_rows<Tiling>(lane, q, k, scores);
      rows_by_rows<Tiling>(lane, dout, v, products);
    }
    lane.barrier();
    if (more) load_tile<Tiling, Tiling::kColumns>(lane, p.head, p.v, (t + 1) * Tiling::kColumns, v);
    if (sees) {
      hide_keys<Tiling>(lane, tile, p.head.window, scores);
      softmax_backward<Tiling>(
          lane, tile, p.scale, [](int row, int column) { return column > row; },
          [&](int r, int half, int, int) { return numbers[r][half]; }, scores, products);
      weights_by_rows<Tiling>(lane, products, k, exchange, dq);
    }
    lane.barrier();
    if (more) load_tile<Tiling, Tiling::kColumns>(lane, p.head, p.k, (t + 1) * Tiling::kColumns, k);
  }
  store_rows<Tiling>(lane, p.head, p.dq, first, factor, dq);
}

/// A tile of queries of head number `member` of the group, their gradients, and their two numbers
/// each.
template <class Tiling, class Lane>
DOS_DEVICE void load_queries(const Lane& lane, const BackwardHead<typename Tiling::T>& p,
                             int member, Index t, typename Tiling::T* q, typename Tiling::T* dout,
                             float* numbers) {
  const Index first = t * Tiling::kColumns;
  const Index column = Index{member} * p.head.size;
  const float* logsumexp = p.logsumexp + member * p.head.tokens;
  const float* delta = p.delta + member * p.head.tokens;
  load_tile<Tiling, Tiling::kColumns>(lane, p.head, {p.q.elements + column, p.q.stride}, first, q);
  load_tile<Tiling, Tiling::kColumns>(lane, p.head, {p.dout.elements + column, p.dout.stride},
                                      first, dout);
  for (int i = lane.thread(); i < Tiling::kColumns; i += Tiling::kThreads) {
    const bool there = first + i < p.head.tokens;
    numbers[i] = there ? logsumexp[first + i] : 0.0F;
    numbers[Tiling::kColumns + i] = there ? delta[first + i] : 0.0F;
  }
}

/// dk and dv of keys first .. first + kRows - 1 of one head, from all heads of queries that share
/// them, one after the other.
template <class Tiling, class Lane>
DOS_DEVICE void backward_keys_block(const Lane& lane, const BackwardHead<typename Tiling::T>& p,
                                    Index first, typename Tiling::T* shared) {
  auto* k = shared;
  auto* v = k + Tiling::kRowTile;
  auto* q = v + Tiling::kRowTile;
  auto* dout = q + Tiling::kColumnTile;
  auto* exchange = reinterpret_cast<float*>(dout + Tiling::kColumnTile);
  float* numbers = exchange + Tiling::kExchange;
  float dk[Tiling::kRowTiles][Tiling::kHeadTiles][4] = {};
  float dv[Tiling::kRowTiles][Tiling::kHeadTiles][4] = {};
  const TileRange tiles =
      tiles_of_queries(first, Tiling::kRows, Tiling::kColumns, p.head.tokens, p.head.window);
  load_tile<Tiling, Tiling::kRows>(lane, p.head, p.k, first, k);
  load_tile<Tiling, Tiling::kRows>(lane, p.head, p.v, first, v);
#pragma unroll 1
  for (int member = 0; member < p.group; ++member) {
    load_queries<Tiling>(lane, p, member, tiles.first, q, dout, numbers);
#pragma unroll 1
    for (Index t = tiles.first; t < tiles.end; ++t) {
      const WarpTile tile = warp_tile<Tiling>(lane, p.head.tokens, first, t);
      lane.wait_copies();
      lane.barrier();
      if (tile.rows > 0 && tile.first_row < Tiling::kColumns) {
        float scores[Tiling::kRowTiles][Tiling::kColumnTiles][4] = {};
        float products[Tiling::kRowTiles][Tiling::kColumnTiles][4] = {};
        rows_by_rows<Tiling>(lane, k, q, scores);
        rows_by_rows<Tiling>(lane, v, dout, products);
        hide_queries<Tiling>(lane, tile, p.head.window, scores);
        softmax_backward<Tiling>(
            lane, tile, p.scale,
            [&](int row, int column) { return row > column || column >= tile.columns; },
            [&](int, int, int j, int e) {
              const int column = 8 * j + result_place(lane.lane(), e).column;
              return RowNumbers{numbers[column], numbers[Tiling::kColumns + column]};
            },
            scores, products);
        weights_by_rows<Tiling>(lane, scores, dout, exchange, dv);
        weights_by_rows<Tiling>(lane, products, q, exchange, dk);
      }
      lane.barrier();
      if (t + 1 < tiles.end) load_queries<Tiling>(lane, p, member, t + 1, q, dout, numbers);
    }
  }
  float scale[Tiling::kRowTiles][2];
  float one[Tiling::kRowTiles][2];
#pragma unroll
  for (int r = 0; r < Tiling::kRowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      scale[r][half] = p.scale;
      one[r][half] = 1;
    }
  store_rows<Tiling>(lane, p.head, p.dk, first, scale, dk);
  store_rows<Tiling>(lane, p.head, p.dv, first, one, dv);
}

}  // namespace dos::codelets::attention

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codelets/attention/attention_tiles.hpp"

/// What the threads of a block do together, written once for the GPU and for tests on the host,
/// where an emulation runs one thread after another. `Lane` is a thread's view of its block:
///
///   thread() warp() lane()       numbers of the thread in the block, the warp in the block, the
///                                thread in the warp
///   barrier() sync_warp()        waits for the block's or the warp's threads
///   copy_word(to, from)          copies 16 bytes to shared memory; there after wait_copies() of
///   the
///                                thread and a barrier
///   wait_copies()
///   load_matrices(r, from)       ldmatrix.x4; load_transposed(r, from) the same with .trans
///   multiply(c, a, b0, b1)       c += a b: mma.sync.m16n8k16
///   quad_max(x) quad_sum(x)      over the four lanes that hold a row of a result
///   any(condition)               whether it holds for a thread of the warp
///   pack(low, high)              two numbers to BF16 in a register
///   exp2(x)
namespace dos::codelets::attention {

/// One head of an array [tokens, ...]: rows `stride` elements apart, of which head_size are the
/// head's.
template <class T>
struct HeadArray {
  T* elements;
  Index stride;
};
struct HeadSize {
  Index tokens;
  int size;
  bool words;  ///< every row of every array starts on a multiple of 16 bytes
  int window;  ///< AttentionShape's; kNoWindow where it hides nothing
};

/// Rows first .. first + kRows - 1 to a tile in shared memory; zeros where there is nothing.
template <class Tiling, int kRows, class Lane>
DOS_DEVICE void load_tile(const Lane& lane, const HeadSize& head,
                          const HeadArray<const typename Tiling::T>& from, Index first,
                          typename Tiling::T* tile) {
  using T = typename Tiling::T;
  constexpr int kElements = kWord / static_cast<int>(sizeof(T));
  constexpr int kWords = Tiling::kHead / kElements;
  for (int i = lane.thread(); i < kRows * kWords; i += Tiling::kThreads) {
    const int row = i / kWords;
    const int column = i % kWords * kElements;
    const Index token = first + row;
    const T* source = from.elements + token * from.stride + column;
    T* to = tile + tile_offset<T, Tiling::kHead>(row, column);
    if (head.words && token < head.tokens && column + kElements <= head.size) {
      lane.copy_word(to, source);
      continue;
    }
    for (int k = 0; k < kElements; ++k)
      to[k] = token < head.tokens && column + k < head.size ? source[k] : T{};
  }
}

/// Four neighbouring numbers of a tile row.
struct alignas(16) Four {
  float at[4];
};
DOS_DEVICE Four four_at(const float* from) {
  return *reinterpret_cast<const Four*>(from);
}

/// result += a b^T over the head: this warp's rows of `a`, all rows of `b`.
template <class Tiling, class Lane>
DOS_DEVICE void rows_by_rows(const Lane& lane, const typename Tiling::T* a,
                             const typename Tiling::T* b,
                             float (&result)[Tiling::kRowTiles][Tiling::kColumnTiles][4]) {
  using T = typename Tiling::T;
  const int first_row = lane.warp() * Tiling::kRowsOfWarp;
  const int id = lane.lane();
  if constexpr (Tiling::kBf16) {
#pragma unroll
    for (int k = 0; k < Tiling::kHead; k += 16) {
      std::uint32_t left[Tiling::kRowTiles][4];
#pragma unroll
      for (int r = 0; r < Tiling::kRowTiles; ++r)
        lane.load_matrices(
            left[r], a + tile_offset<T, Tiling::kHead>(first_row + 16 * r + left_source(id).row,
                                                       k + left_source(id).column));
#pragma unroll
      for (int j = 0; j < Tiling::kColumnTiles; j += 2) {
        std::uint32_t right[4];
        lane.load_matrices(right, b + tile_offset<T, Tiling::kHead>(8 * j + right_source(id).row,
                                                                    k + right_source(id).column));
#pragma unroll
        for (int r = 0; r < Tiling::kRowTiles; ++r) {
          lane.multiply(result[r][j], left[r], right[0], right[1]);
          lane.multiply(result[r][j + 1], left[r], right[2], right[3]);
        }
      }
    }
  } else {
    const Place place = result_place(id, 0);
#pragma unroll 1
    for (int k = 0; k < Tiling::kHead; k += 4) {
#pragma unroll
      for (int r = 0; r < Tiling::kRowTiles; ++r) {
        const int row = first_row + 16 * r + place.row;
        const Four top = four_at(a + tile_offset<T, Tiling::kHead>(row, k));
        const Four bottom = four_at(a + tile_offset<T, Tiling::kHead>(row + 8, k));
#pragma unroll
        for (int j = 0; j < Tiling::kColumnTiles; ++j) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int column = 8 * j + place.column + e;
            const Four right = four_at(b + tile_offset<T, Tiling::kHead>(column, k));
#pragma unroll
            for (int n = 0; n < 4; ++n) {
              result[r][j][e] += top.at[n] * right.at[n];
              result[r][j][e + 2] += bottom.at[n] * right.at[n];
            }
          }
        }
      }
    }
  }
}

/// This warp's weights, as rows_by_rows left them, to its part of the exchange buffer.
template <class Tiling, class Lane>
DOS_DEVICE void exchange_weights(const Lane& lane,
                                 const float (&weights)[Tiling::kRowTiles][Tiling::kColumnTiles][4],
                                 float* exchange) {
  lane.sync_warp();
#pragma unroll
  for (int r = 0; r < Tiling::kRowTiles; ++r)
#pragma unroll
    for (int j = 0; j < Tiling::kColumnTiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Place place = result_place(lane.lane(), i);
        exchange[(16 * r + place.row) * Tiling::kExchangeStride + 8 * j + place.column] =
            weights[r][j][i];
      }
  lane.sync_warp();
}

/// result += weights b: this warp's rows of weights, `b` a tile of columns.
template <class Tiling, class Lane>
DOS_DEVICE void weights_by_rows(const Lane& lane,
                                const float (&weights)[Tiling::kRowTiles][Tiling::kColumnTiles][4],
                                const typename Tiling::T* b, float* exchange,
                                float (&result)[Tiling::kRowTiles][Tiling::kHeadTiles][4]) {
  using T = typename Tiling::T;
  const int id = lane.lane();
  if constexpr (Tiling::kBf16) {
#pragma unroll
    for (int j = 0; j < Tiling::kColumnTiles; j += 2) {
      // The result fragments of two products side by side are a left fragment of the next.
      std::uint32_t left[Tiling::kRowTiles][4];
#pragma unroll
      for (int r = 0; r < Tiling::kRowTiles; ++r) {
        left[r][0] = lane.pack(weights[r][j][0], weights[r][j][1]);
        left[r][1] = lane.pack(weights[r][j][2], weights[r][j][3]);
        left[r][2] = lane.pack(weights[r][j + 1][0], weights[r][j + 1][1]);
        left[r][3] = lane.pack(weights[r][j + 1][2], weights[r][j + 1][3]);
      }
#pragma unroll
      for (int d = 0; d < Tiling::kHeadTiles; d += 2) {
        std::uint32_t right[4];
        lane.load_transposed(right,
                             b + tile_offset<T, Tiling::kHead>(8 * j + left_source(id).row,
                                                               8 * d + left_source(id).column));
#pragma unroll
        for (int r = 0; r < Tiling::kRowTiles; ++r) {
          lane.multiply(result[r][d], left[r], right[0], right[1]);
          lane.multiply(result[r][d + 1], left[r], right[2], right[3]);
        }
      }
    }
  } else {
    float* own = exchange + lane.warp() * Tiling::kRowsOfWarp * Tiling::kExchangeStride;
    exchange_weights<Tiling>(lane, weights, own);
    const Place place = result_place(id, 0);
#pragma unroll 1
    for (int k = 0; k < Tiling::kColumns; ++k) {
#pragma unroll
      for (int r = 0; r < Tiling::kRowTiles; ++r) {
        const float top = own[(16 * r + place.row) * Tiling::kExchangeStride + k];
        const float bottom = own[(16 * r + place.row + 8) * Tiling::kExchangeStride + k];
#pragma unroll
        for (int d = 0; d < Tiling::kHeadTiles; ++d) {
          const float* right = b + tile_offset<T, Tiling::kHead>(k, 8 * d + place.column);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            result[r][d][e] += top * right[e];
            result[r][d][e + 2] += bottom * right[e];
          }
        }
      }
    }
  }
}

/// Rows of a result, times `factor`, to rows first .. of an array.
template <class Tiling, class Lane>
DOS_DEVICE void store_rows(const Lane& lane, const HeadSize& head,
                           const HeadArray<typename Tiling::T>& to, Index first,
                           const float (&factor)[Tiling::kRowTiles][2],
                           const float (&result)[Tiling::kRowTiles][Tiling::kHeadTiles][4]) {
  using T = typename Tiling::T;
#pragma unroll
  for (int r = 0; r < Tiling::kRowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Place place = result_place(lane.lane(), 2 * half);
      const Index token = first + lane.warp() * Tiling::kRowsOfWarp + 16 * r + place.row;
      if (token >= head.tokens) continue;
      T* row = to.elements + token * to.stride;
#pragma unroll
      for (int d = 0; d < Tiling::kHeadTiles; ++d) {
        const int column = 8 * d + place.column;
        const float low = result[r][d][2 * half] * factor[r][half];
        const float high = result[r][d][2 * half + 1] * factor[r][half];
        if constexpr (Tiling::kBf16) {
          if (head.words && column + 1 < head.size) {
            *reinterpret_cast<std::uint32_t*>(row + column) = lane.pack(low, high);
          } else {
            if (column < head.size) row[column] = to_bf16(low);
            if (column + 1 < head.size) row[column + 1] = to_bf16(high);
          }
        } else {
          if (column < head.size) row[column] = low;
          if (column + 1 < head.size) row[column + 1] = high;
        }
      }
    }
}

}  // namespace dos::codelets::attention

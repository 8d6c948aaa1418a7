// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "base/bf16.hpp"
#include "base/host_device.hpp"
#include "base/types.hpp"
#include "codelets/attention/attention.hpp"

/// Where everything lies in the CUDA kernels of attention, without CUDA: tests run it on the host.
///
/// A block of threads owns `kRows` rows of the score matrix of one head and walks over its columns,
/// kColumns at a time. Rows are queries and columns keys, or, for the gradients of keys and values,
/// the other way round. The scores of a tile live in registers only.
namespace dos::codelets::attention {

inline constexpr int kWarp = 32;
inline constexpr int kWord = 16;  ///< bytes copied at a time

/// Tiles of one kernel: kWarps warps of 16 * kRowTiles rows each.
template <class Element, int kHeadSize, int kRowTilesOfWarp, int kColumnsOfTile>
struct Tiling {
  using T = Element;
  static constexpr bool kBf16 = std::is_same_v<T, BF16>;
  static constexpr int kHead = kHeadSize;  ///< shorter heads are filled up with zeros
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kRowTiles = kRowTilesOfWarp;
  static constexpr int kRowsOfWarp = 16 * kRowTiles;
  static constexpr int kRows = kWarps * kRowsOfWarp;
  static constexpr int kColumns = kColumnsOfTile;
  static constexpr int kColumnTiles = kColumns / 8;
  static constexpr int kHeadTiles = kHead / 8;
  /// FP32 weights pass through shared memory from the product that makes them to the one that takes
  /// them; padded, so that eight rows lie in different banks.
  static constexpr int kExchangeStride = kColumns + 4;
  static constexpr int kExchange = kBf16 ? 0 : kRows * kExchangeStride;

  static constexpr int kRowTile = kRows * kHead;        ///< elements of a tile of rows
  static constexpr int kColumnTile = kColumns * kHead;  ///< and of columns
};

/// Shared memory of a kernel with so many tiles of rows and columns and FP32 numbers a column.
template <class Tiling>
constexpr Index shared_bytes(int row_tiles, int column_tiles, int column_numbers) {
  const Index elements =
      Index{row_tiles} * Tiling::kRowTile + Index{column_tiles} * Tiling::kColumnTile;
  const Index numbers = Tiling::kExchange + Index{column_numbers} * Tiling::kColumns;
  return elements * Index{sizeof(typename Tiling::T)} + numbers * Index{sizeof(float)};
}

/// Offset of an element of a tile [rows, kHead] in shared memory. The words of a row change places
/// with the row's number, so that the same word of eight rows lies in different banks.
template <class T, int kHead>
DOS_HD constexpr int tile_offset(int row, int column) {
  constexpr int kElements = kWord / static_cast<int>(sizeof(T));
  static_assert(kHead / kElements >= 8);
  const int word = (column / kElements) ^ (row % 8);
  return row * kHead + word * kElements + column % kElements;
}

// Fragments of mma.sync.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point
// type"): the element that number `i` of lane `lane` is. Packed registers hold numbers 2r and 2r+1.
struct Place {
  int row;
  int column;
};
/// of the [16, 8] result, i < 4
DOS_HD constexpr Place result_place(int lane, int i) {
  return {lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2};
}

// What a lane points to for ldmatrix.x4, which loads four 8 x 8 matrices, matrix m by the rows that
// lanes 8m .. 8m + 7 point to.
/// A [16, 16] left factor that lies as it is; also two right factors [16, 8] side by side that lie
/// as they are, when loaded transposed.
DOS_HD constexpr Place left_source(int lane) {
  return {lane % 8 + 8 * (lane / 8 % 2), 8 * (lane / 16)};
}
/// Two right factors [16, 8] side by side that lie transposed, as a [16, 16] matrix.
DOS_HD constexpr Place right_source(int lane) {
  return {lane % 8 + 8 * (lane / 16), 8 * (lane / 8 % 2)};
}

/// Tiles of columns first .. end - 1.
struct TileRange {
  Index first;
  Index end;
};

/// What a window is where there is none: more than any tile is away from another.
inline constexpr int kNoWindow = 1 << 30;

/// Tiles of keys that queries first .. first + rows - 1 see any of.
DOS_HD constexpr TileRange tiles_of_keys(Index first, Index rows, Index columns, Index tokens,
                                         Index window) {
  const Index last = first + rows < tokens ? first + rows : tokens;
  const Index first_key = first >= window ? first - window + 1 : 0;
  return {first_key / columns, (last + columns - 1) / columns};
}
/// Tiles of queries that see any of the keys first .. first + rows - 1.
DOS_HD constexpr TileRange tiles_of_queries(Index first, Index rows, Index columns, Index tokens,
                                            Index window) {
  const Index behind = first + rows - 1 + window;
  const Index last = behind < tokens ? behind : tokens;
  return {first / columns, (last + columns - 1) / columns};
}

/// Which part of the work a block has. Blocks with the most tiles start first: those of the last
/// queries, or of the first keys.
struct BlockPlace {
  Index head;  ///< sequence * heads + head
  Index first_row;
};
DOS_HD constexpr BlockPlace block_place(Index block, Index heads, Index tokens, Index rows,
                                        bool last_first) {
  const Index tiles = (tokens + rows - 1) / rows;
  const Index tile = block / heads;
  return {block % heads, (last_first ? tiles - 1 - tile : tile) * rows};
}

/// Where head number `head` (sequence * heads + head) of the queries lies, and the one of keys and
/// values that it meets. `out` and `row` count from token 0, which asks only where first is 0.
struct HeadOffsets {
  Index query;
  Index key;
  Index value;
  Index out;
  Index row;
  Index width;   ///< of a row of out
  Index stride;  ///< of a row of qkv
};
DOS_HD constexpr HeadOffsets head_offsets(const AttentionShape& shape, Index head) {
  const Index width = shape.width();
  const Index stride = shape.qkv_width();
  const Index token = head / shape.heads * shape.tokens;
  const Index number = head % shape.heads;
  const Index key = token * stride + width + number / shape.group() * shape.head_size;
  return {token * stride + number * shape.head_size,
          key,
          key + shape.key_width(),
          (head / shape.heads * shape.queries() - shape.first) * width + number * shape.head_size,
          head * shape.queries() - shape.first,
          width,
          stride};
}

}  // namespace dos::codelets::attention

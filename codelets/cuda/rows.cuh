// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "codelets/cuda/pack.cuh"
#include "codelets/cuda/reduce.cuh"

/// Rows that a group of threads, a warp or a block, works on together.
namespace dos::codelets::cuda {

struct Rows {
  Index tokens;
  Index width;
  bool words;           ///< every row of every array starts on a word, and ends with one
  float inverse_width;  ///< 1 / width, so that no thread divides

  Rows(Index row_count, Index columns, bool by_words)
      : tokens(row_count),
        width(columns),
        words(by_words),
        inverse_width(1.0F / static_cast<float>(columns)) {}
};

/// The kind of group that takes a row, which the compiler knows: kGroup threads with at most
/// kWords words each, kept in registers. No words: rows of any width and address, which are read
/// again each time.
template <int kThreadsOfGroup, int kWordsOfThread>
struct RowKind {
  static constexpr int kGroup = kThreadsOfGroup;
  static constexpr int kWords = kWordsOfThread;
  static constexpr Index kRowsOfBlock = kThreads / kGroup;
};

/// Calls f with the kind for the rows. Up to 8 words a thread a row is a warp's, which needs no
/// barrier; wider ones are a block's.
template <class T, class F>
const char* with_row_kind(const Rows& rows, F&& f) {
  constexpr Index kOfWarp = kWarp * kPack<T>;
  constexpr Index kOfBlock = kThreads * kPack<T>;
  if (!rows.words || rows.width > 4 * kOfBlock)
    return rows.width <= 4 * kOfWarp ? f(RowKind<kWarp, 0>{}) : f(RowKind<kThreads, 0>{});
  switch (ceil_div(rows.width, kOfWarp)) {
    case 1:
      return f(RowKind<kWarp, 1>{});
    case 2:
      return f(RowKind<kWarp, 2>{});
    case 3:
      return f(RowKind<kWarp, 3>{});
    case 4:
      return f(RowKind<kWarp, 4>{});
    case 5:
    case 6:
      return f(RowKind<kWarp, 6>{});
    case 7:
    case 8:
      return f(RowKind<kWarp, 8>{});
    default:
      return rows.width <= 2 * kOfBlock ? f(RowKind<kThreads, 2>{}) : f(RowKind<kThreads, 4>{});
  }
}

/// The part of a row of elements T that a thread works on: number p starts at column(p). All words
/// that are kept are loaded by the constructor: those of several rows are under way together.
template <class T, class Kind>
struct RowPart {
  static constexpr bool kIsKept = Kind::kWords > 0;
  static constexpr Index kStep = Kind::kGroup * kPack<T>;
  const T* from;
  Index first;
  Index width;
  bool words;
  Pack<T> kept[kIsKept ? Kind::kWords : 1];

  /// `row` null: zeros.
  __device__ RowPart(const T* row, const Rows& rows)
      : from(row),
        first(static_cast<Index>(threadIdx.x) % Kind::kGroup * kPack<T>),
        width(rows.width),
        words(rows.words) {
    if constexpr (kIsKept) {
#pragma unroll
      for (int p = 0; p < Kind::kWords; ++p) {
        kept[p] = {};
        if (row != nullptr && has(p)) kept[p].load(row + first + p * kStep);
      }
    }
  }

  __device__ __forceinline__ Index column(Index p) const {
    return first + p * kStep;
  }
  __device__ __forceinline__ bool has(Index p) const {
    return column(p) < width;
  }
  __device__ __forceinline__ Pack<T> pack(Index p) const {
    if constexpr (kIsKept) return kept[p];
    return from == nullptr ? Pack<T>{} : constant(from, p);
  }
  /// Pack p of a vector of the same width that the kernel does not write.
  __device__ __forceinline__ Pack<T> constant(const T* row, Index p) const {
    Pack<T> result;
    if constexpr (kIsKept)
      result.load_constant(row + first + p * kStep);
    else
      result.load(row + column(p), width - column(p), words);
    return result;
  }
  __device__ __forceinline__ void write(const Pack<T>& result, T* row, Index p) const {
    if constexpr (kIsKept)
      result.store(row + first + p * kStep);
    else
      result.store(row + column(p), width - column(p), words);
  }

  /// f(p) for the packs of this thread, with p known to the compiler where they are kept.
  template <class F>
  __device__ __forceinline__ void each(F&& f) const {
    if constexpr (kIsKept) {
#pragma unroll
      for (int p = 0; p < Kind::kWords; ++p)
        if (has(p)) f(p);
    } else {
      for (Index p = 0; has(p); ++p) f(p);
    }
  }

  /// Sum over the row of f(x).
  template <class F>
  __device__ __forceinline__ float sum(F&& f) const {
    float result = 0;
    each([&](Index p) {
      const Pack<T> x = pack(p);
#pragma unroll
      for (Index k = 0; k < kPack<T>; ++k)
        if (kIsKept || column(p) + k < width) result += f(x.get(k));
    });
    return reduce_block<Kind::kGroup>(result, Add{});
  }
};

/// The rows of this group of threads, one after another; all threads of a block take part together.
template <class Kind, class F>
__device__ __forceinline__ void for_rows(const Rows& rows, F&& f) {
  const Index group = Index{blockIdx.x} * Kind::kRowsOfBlock + threadIdx.x / Kind::kGroup;
  for (Index row = group; row < rows.tokens; row += Index{gridDim.x} * Kind::kRowsOfBlock) f(row);
}

template <class Kind>
__device__ __forceinline__ bool is_first_of_group() {
  return threadIdx.x % Kind::kGroup == 0;
}

/// Blocks for the rows.
template <class Kind>
unsigned blocks_for_rows(const Rows& rows) {
  return blocks_for(rows.tokens, Kind::kRowsOfBlock);
}

}  // namespace dos::codelets::cuda

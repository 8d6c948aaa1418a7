// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/cuda/pack.cuh"
#include "codelets/cuda/reduce.cuh"

/// Rows that a group of threads, a warp or a block, works on together.
namespace dos::codelets::cuda {

/// Packs of a row that a thread keeps in registers; the rest of a wider row is read again.
inline constexpr int kKept = 4;
/// Rows up to this width are a warp's, wider ones a block's.
inline constexpr Index kWidestOfWarp = kKept * kPack * kWarp;

/// The part of one row that a thread of kGroup threads works on: pack number p starts at column(p).
template <class T, int kGroup>
struct RowPart {
  const T* from;
  Index width;
  bool words;
  int thread;
  Pack<T> kept[kKept];

  __device__ RowPart(const T* row, Index columns, bool by_words)
      : from(row), width(columns), words(by_words), thread(static_cast<int>(threadIdx.x) % kGroup) {
#pragma unroll
    for (int p = 0; p < kKept; ++p) kept[p].load(from + column(p), width - column(p), words);
  }

  __device__ __forceinline__ Index column(Index p) const {
    return (p * kGroup + thread) * kPack;
  }
  __device__ __forceinline__ Pack<T> wide(Index p) const {
    Pack<T> pack;
    pack.load(from + column(p), width - column(p), words);
    return pack;
  }
};

/// f(p, column) for the packs of a thread, those in registers with p known to the compiler.
template <class Row, class Kept, class Wide>
__device__ __forceinline__ void for_packs(const Row& row, Kept&& kept, Wide&& wide) {
#pragma unroll
  for (int p = 0; p < kKept; ++p)
    if (row.column(p) < row.width) kept(p);
  for (Index p = kKept; row.column(p) < row.width; ++p) wide(p);
}

/// Sum over a row of f(x, column) for the columns there are.
template <int kGroup, class T, class F>
__device__ __forceinline__ float sum_row(const RowPart<T, kGroup>& row, F&& f) {
  float sum = 0;
  const auto add = [&](const Pack<T>& pack, Index column) {
#pragma unroll
    for (Index k = 0; k < kPack; ++k)
      if (column + k < row.width) sum += f(pack.get(k));
  };
  for_packs(
      row, [&](int p) { add(row.kept[p], row.column(p)); },
      [&](Index p) { add(row.wide(p), row.column(p)); });
  return reduce_block<kGroup>(sum, Add{});
}

struct Rows {
  Index tokens;
  Index width;
  bool words;  ///< every row of every array starts on a word
};

/// The rows of this group of threads, one after another; all threads of a block take part together.
template <int kGroup, class F>
__device__ __forceinline__ void for_rows(const Rows& rows, F&& f) {
  constexpr Index kGroups = kThreads / kGroup;
  const Index group = Index{blockIdx.x} * kGroups + threadIdx.x / kGroup;
  for (Index row = group; row < rows.tokens; row += Index{gridDim.x} * kGroups) f(row);
}

/// Rows of this width that a block takes at a time.
inline Index rows_of_block(Index width) {
  return width <= kWidestOfWarp ? kThreads / kWarp : 1;
}

}  // namespace dos::codelets::cuda

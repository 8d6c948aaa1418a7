// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/host_device.hpp"
#include "base/row_blocking.hpp"

namespace dos::codelets::cuda {

/// Consecutive blocks of a table, as many as one launch takes: their addresses travel as its
/// arguments.
inline constexpr Index kMostBlocks = 64;
struct TableBatch {
  const void* blocks[kMostBlocks];
  Index first_row;  ///< of the table, where the batch starts
  Index rows;
  Index rows_per_block;
};

constexpr Index table_batches(const RowBlocking& blocking) {
  return ceil_div(blocking.count(), kMostBlocks);
}

inline TableBatch table_batch(const RowBlocking& blocking, const void* const* blocks, Index batch) {
  TableBatch result{};
  const Index first = batch * kMostBlocks;
  const Index left = blocking.count() - first;
  const Index count = left < kMostBlocks ? left : kMostBlocks;
  for (Index b = 0; b < count; ++b) {
    result.blocks[b] = blocks[first + b];
    result.rows += blocking.rows_of(first + b);
  }
  result.first_row = blocking.first_row(first);
  result.rows_per_block = blocking.rows_per_block;
  return result;
}

/// Where a row of the table lies, or null if it is not in the batch.
template <class T>
DOS_HD const T* find_row(const TableBatch& batch, Index row, Index width) {
  const Index inside = row - batch.first_row;
  if (inside < 0 || inside >= batch.rows) return nullptr;
  const Index block = inside / batch.rows_per_block;
  return static_cast<const T*>(batch.blocks[block]) +
         (inside - block * batch.rows_per_block) * width;
}

}  // namespace dos::codelets::cuda

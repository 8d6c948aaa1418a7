// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/row_blocking.hpp"
#include "base/types.hpp"

namespace dos::codelets {

/// A matrix whose row blocks lie in memory independently: blocks[b] points to block b, contiguous.
template <class T>
struct RowBlocks {
  RowBlocking blocking;
  T* const* blocks;

  /// Pointer to the first element of a row.
  [[nodiscard, gnu::always_inline]] constexpr T* row(Index index) const {
    const Index block = index / blocking.rows_per_block;
    return blocks[block] + (index - blocking.first_row(block)) * blocking.columns;
  }
};

/// Rows of a block that follow each other.
struct RowPiece {
  Index first;  ///< of the range asked for, the number of the first of them
  Index rows;
  Index block;
  Index row;  ///< of the block, the number of the first of them
};

/// Calls use(piece) for the pieces of rows first .. first + count - 1, one a block, in their order.
template <class Use>
[[gnu::always_inline]] constexpr void for_each_piece(const RowBlocking& blocking, Index first,
                                                     Index count, const Use& use) {
  for (Index done = 0; done < count;) {
    const Index block = (first + done) / blocking.rows_per_block;
    const Index row = first + done - blocking.first_row(block);
    const Index left = blocking.rows_of(block) - row;
    const Index rows = left < count - done ? left : count - done;
    use(RowPiece{done, rows, block, row});
    done += rows;
  }
}

}  // namespace dos::codelets

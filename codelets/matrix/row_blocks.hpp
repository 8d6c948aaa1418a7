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

}  // namespace dos::codelets

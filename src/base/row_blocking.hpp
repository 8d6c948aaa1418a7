// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos {

// The members are forced inline: CPU kernels include this header and are compiled for several
// instruction sets; a copy left to the linker could be one that this processor cannot run.

/// How a [rows, columns] row-major matrix is cut into blocks of whole rows: block b holds rows
/// b * rows_per_block up to, not including, min(rows, (b + 1) * rows_per_block).
struct RowBlocking {
  Index rows = 0;
  Index columns = 0;
  Index rows_per_block = 0;

  [[nodiscard, gnu::always_inline]] constexpr Index count() const {
    return rows == 0 ? 0 : (rows + rows_per_block - 1) / rows_per_block;
  }
  [[nodiscard, gnu::always_inline]] constexpr Index first_row(Index block) const {
    return block * rows_per_block;
  }
  [[nodiscard, gnu::always_inline]] constexpr Index rows_of(Index block) const {
    const Index left = rows - first_row(block);
    return left < rows_per_block ? left : rows_per_block;
  }
};

}  // namespace dos

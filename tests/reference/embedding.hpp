// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/bounded.hpp"

namespace dos::reference {

/// y[sequences * context, width] = tokens' rows + positions' rows; tokens[sequences, context + 1].
inline Bounded embedding(Index sequences, Index context, Index width, const std::int32_t* tokens,
                         const float* token_table, const float* position_table) {
  Bounded y(sequences * context * width);
  for (Index s = 0; s < sequences; ++s) {
    for (Index t = 0; t < context; ++t) {
      for (Index i = 0; i < width; ++i) {
        const Index at = (s * context + t) * width + i;
        y.add(at, token_table[tokens[s * (context + 1) + t] * width + i]);
        y.add(at, position_table[t * width + i]);
      }
    }
  }
  return y;
}

/// Rows first_row .. first_row + rows - 1 of the token table's gradient, plus `before`.
inline Bounded token_table_gradient(Index sequences, Index context, Index width, Index first_row,
                                    Index rows, const std::int32_t* tokens, const float* dy,
                                    const float* before) {
  Bounded d(rows * width);
  for (Index i = 0; i < rows * width; ++i) d.add(i, before[i]);
  for (Index s = 0; s < sequences; ++s) {
    for (Index t = 0; t < context; ++t) {
      const Index row = tokens[s * (context + 1) + t] - first_row;
      if (row < 0 || row >= rows) continue;
      for (Index i = 0; i < width; ++i) d.add(row * width + i, dy[(s * context + t) * width + i]);
    }
  }
  return d;
}

/// The same of the position table; `before` may be null. Positions from `context` on get nothing.
inline Bounded position_table_gradient(Index sequences, Index context, Index width, Index first_row,
                                       Index rows, const float* dy, const float* before) {
  Bounded d(rows * width);
  for (Index r = 0; r < rows; ++r) {
    for (Index i = 0; i < width; ++i) {
      if (before != nullptr) d.add(r * width + i, before[r * width + i]);
      if (first_row + r >= context) continue;
      for (Index s = 0; s < sequences; ++s) {
        d.add(r * width + i, dy[(s * context + first_row + r) * width + i]);
      }
    }
  }
  return d;
}

}  // namespace dos::reference

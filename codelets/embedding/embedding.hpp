// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/types.hpp"
#include "codelets/matrix/row_blocks.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// tokens[sequences, context + 1]: the last of each row is only ever a target.
struct EmbeddingShape {
  Index sequences;
  Index context;
  Index width;
};

/// y[sequences * context, width] = token_table[tokens] + position_table[position].
/// Pre: 0 <= token < token_table rows, context <= position_table rows. T is the type of activations
/// and working parameters, float or BF16; sums are FP32, rounded once.
template <simd::Isa, class T>
void embedding_forward_cpu(const EmbeddingShape& shape, const std::int32_t* tokens,
                           RowBlocks<const std::type_identity_t<T>> token_table,
                           RowBlocks<const std::type_identity_t<T>> position_table, T* y);

/// Rows first_row .. first_row + rows - 1 of a table's gradient.
struct TableBlock {
  Index first_row;
  Index rows;
};

/// dtable[block rows, width] += dy of every token that names a row of the block, in token order.
/// G is the type of the gradients of parameters, float or BF16; a row's sum is FP32, rounded once.
template <simd::Isa, class T, class G>
void embedding_backward_token_cpu(const EmbeddingShape& shape, const TableBlock& block,
                                  const std::int32_t* tokens, const T* dy, G* dtable);

/// dtable[block rows, width] (+)= sum over sequences of dy at that position; rows at or beyond
/// `context` receive zero (or stay, when accumulating).
template <simd::Isa, class T, class G>
void embedding_backward_position_cpu(const EmbeddingShape& shape, const TableBlock& block,
                                     const T* dy, bool accumulate, G* dtable);

}  // namespace dos::codelets

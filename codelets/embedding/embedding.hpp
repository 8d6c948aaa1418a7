// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/types.hpp"
#include "codelets/cuda/context.hpp"
#include "codelets/matrix/row_blocks.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// Of a lane; its tokens are [sequences, context + 1], and the last of each row is only a target.
/// Whether a token counts as a target (base/target.hpp) makes no difference here.
struct EmbeddingShape {
  Index sequences;
  Index context;
  Index width;
  Index first = 0;  ///< forward: position of each sequence's first token
};

/// Given: the lane's tokens and both tables, [rows, width] in row blocks. Overwrites
/// y[sequences * context, width]: of each token, its row of the token table plus the row of its
/// position, in FP32, rounded once to T, float or BF16. A position table of no rows adds nothing.
/// Pre: 0 <= token < rows of token_table, first + context <= rows of position_table.
template <simd::Isa, class T>
void embedding_forward_cpu(const EmbeddingShape& shape, const std::int32_t* tokens,
                           RowBlocks<const std::type_identity_t<T>> token_table,
                           RowBlocks<const std::type_identity_t<T>> position_table, T* y);

/// Rows first_row .. first_row + rows - 1 of a table's gradient.
struct TableBlock {
  Index first_row;
  Index rows;
};

/// dtable[block rows, width] = dy of every token that names a row of the block, added up in token
/// order, or with `accumulate` dtable plus that.
/// G is the type of the gradients of parameters, float or BF16; a row's sum is FP32, rounded once.
template <simd::Isa, class T, class G>
void embedding_backward_token_cpu(const EmbeddingShape& shape, const TableBlock& block,
                                  const std::int32_t* tokens, const T* dy, bool accumulate,
                                  G* dtable);

/// dtable[block rows, width] (+)= sum over sequences of dy at that position; rows at or beyond
/// `context` receive zero (or stay, when accumulating).
template <simd::Isa, class T, class G>
void embedding_backward_position_cpu(const EmbeddingShape& shape, const TableBlock& block,
                                     const T* dy, bool accumulate, G* dtable);

/// On a GPU (cuda/context.hpp); the tables' blocks are addresses in its memory.
const char* embedding_forward_cuda(const CudaContext& context, DType type,
                                   const EmbeddingShape& shape, const std::int32_t* tokens,
                                   const RowBlocks<const void>& token_table,
                                   const RowBlocks<const void>& position_table, void* y);

/// On a GPU, in the same order: FP32 results have the CPU's bits.
///
/// One block of threads for each row of the table and strip of columns. Two integers a row, found
/// with atomic minima and maxima (whose result no order changes), say where the row's token stands
/// first and last; rows that no token names end at once, and only rows named more than once look
/// through the tokens between. No sort, no atomics on numbers.
const char* embedding_backward_token_cuda(const CudaContext& context, DType type, DType gradient,
                                          const EmbeddingShape& shape, const TableBlock& block,
                                          const std::int32_t* tokens, const void* dy,
                                          bool accumulate, void* dtable);

/// On a GPU, in the same order.
const char* embedding_backward_position_cuda(const CudaContext& context, DType type, DType gradient,
                                             const EmbeddingShape& shape, const TableBlock& block,
                                             const void* dy, bool accumulate, void* dtable);

}  // namespace dos::codelets

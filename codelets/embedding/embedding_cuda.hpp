// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/workspace.hpp"
#include "codelets/embedding/embedding.hpp"

namespace dos::codelets {

// Exist only if kHasCudaKernels; start on the context's stream, wait for nothing, and return null
// or what went wrong. `type` is that of the tables and activations, FP32 or BF16; `gradient` that
// of the tables' gradients. All pointers are to device memory but the tables' lists of blocks.

/// Row blocks in device memory.
struct CudaTable {
  RowBlocking blocking;
  const void* const* blocks;
};

/// embedding_forward_cpu (embedding.hpp).
const char* embedding_forward_cuda(const CudaContext& context, DType type,
                                   const EmbeddingShape& shape, const std::int32_t* tokens,
                                   const CudaTable& token_table, const CudaTable& position_table,
                                   void* y);

/// embedding_backward_token_cpu (embedding.hpp), in the same order: FP32 results have the CPU's
/// bits. BF16 gradients are summed in FP32 and rounded once.
///
/// One block of threads for each row of the table and strip of columns. Two integers a row, found
/// with atomic minima and maxima (whose result no order changes), say where the row's token stands
/// first and last; rows that no token names end at once, and only rows named more than once look
/// through the tokens between. No sort, no atomics on numbers.
const char* embedding_backward_token_cuda(const CudaContext& context, DType type, DType gradient,
                                          const EmbeddingShape& shape, const TableBlock& block,
                                          const std::int32_t* tokens, const void* dy, void* dtable);

/// embedding_backward_position_cpu (embedding.hpp), in the same order.
const char* embedding_backward_position_cuda(const CudaContext& context, DType type, DType gradient,
                                             const EmbeddingShape& shape, const TableBlock& block,
                                             const void* dy, bool accumulate, void* dtable);

}  // namespace dos::codelets

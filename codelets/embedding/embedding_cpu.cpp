// SPDX-License-Identifier: Apache-2.0
#include "codelets/embedding/embedding.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;

void add(Index count, const float* __restrict from, float* __restrict to) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

template <>
void embedding_forward_cpu<kIsa>(const EmbeddingShape& shape, const std::int32_t* tokens,
                                 RowBlocks<const float> token_table,
                                 RowBlocks<const float> position_table, float* y) {
  for (Index sequence = 0; sequence < shape.sequences; ++sequence) {
    for (Index position = 0; position < shape.context; ++position) {
      const Index token = tokens[sequence * (shape.context + 1) + position];
      const float* __restrict a = token_table.row(token);
      const float* __restrict b = position_table.row(position);
      float* __restrict out = y + (sequence * shape.context + position) * shape.width;
#pragma omp simd
      for (Index i = 0; i < shape.width; ++i) out[i] = a[i] + b[i];
    }
  }
}

template <>
void embedding_backward_token_cpu<kIsa>(const EmbeddingShape& shape, const TableBlock& block,
                                        const std::int32_t* tokens, const float* dy,
                                        float* dtable) {
  for (Index sequence = 0; sequence < shape.sequences; ++sequence) {
    for (Index position = 0; position < shape.context; ++position) {
      const Index row = tokens[sequence * (shape.context + 1) + position] - block.first_row;
      if (row < 0 || row >= block.rows) continue;
      add(shape.width, dy + (sequence * shape.context + position) * shape.width,
          dtable + row * shape.width);
    }
  }
}

template <>
void embedding_backward_position_cpu<kIsa>(const EmbeddingShape& shape, const TableBlock& block,
                                           const float* dy, bool accumulate, float* dtable) {
  for (Index row = 0; row < block.rows; ++row) {
    const Index position = block.first_row + row;
    float* out = dtable + row * shape.width;
    if (!accumulate) {
      for (Index i = 0; i < shape.width; ++i) out[i] = 0;
    }
    if (position >= shape.context) continue;
    for (Index sequence = 0; sequence < shape.sequences; ++sequence) {
      add(shape.width, dy + (sequence * shape.context + position) * shape.width, out);
    }
  }
}

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#include "codelets/embedding/embedding.hpp"

#include "base/target.hpp"
#include "codelets/simd/elements.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;
// Columns of a rounded table's row that are summed at a time.
constexpr Index kStrip = 1024;

template <class T>
void add(Index count, const T* __restrict from, float* __restrict to) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) to[i] += to_float(from[i]);
}

/// Calls compute(first column, columns, sums) for the strips of a table's row. The sums start at
/// what the row holds, or at zero, and become the row: in FP32 they are it.
template <class G, class Compute>
void for_each_strip(Index width, bool accumulate, G* row, const Compute& compute) {
  if constexpr (!simd::kIsRounded<G>) {
    if (!accumulate) {
      for (Index i = 0; i < width; ++i) row[i] = 0;
    }
    compute(0, width, row);
  } else {
    for (Index first = 0; first < width; first += kStrip) {
      const Index columns = width - first < kStrip ? width - first : kStrip;
      float sums[kStrip] = {};
      if (accumulate) add(columns, row + first, sums);
      compute(first, columns, sums);
#pragma omp simd
      for (Index i = 0; i < columns; ++i) simd::put(row + first + i, sums[i]);
    }
  }
}

/// The rows of dy that belong to each row of a block, in order: first(row), then after(it); none is
/// negative.
class Chains {
 public:
  Chains(const EmbeddingShape& shape, const TableBlock& block, const std::int32_t* tokens)
      : rows_(block.rows), links_(new Index[static_cast<std::size_t>(rows_ + count_of(shape))]) {
    for (Index row = 0; row < rows_; ++row) links_[row] = -1;
    for (Index at = count_of(shape) - 1; at >= 0; --at) {
      const Index row = token_of(tokens[at + at / shape.context]) - block.first_row;
      if (row < 0 || row >= rows_) continue;
      links_[rows_ + at] = links_[row];
      links_[row] = at;
    }
  }
  Chains(const Chains&) = delete;
  Chains& operator=(const Chains&) = delete;
  ~Chains() { delete[] links_; }

  [[nodiscard]] Index first(Index row) const { return links_[row]; }
  [[nodiscard]] Index after(Index at) const { return links_[rows_ + at]; }

 private:
  static Index count_of(const EmbeddingShape& shape) { return shape.sequences * shape.context; }

  Index rows_;
  Index* links_;  // no std::vector: its functions would be compiled for one instruction set
};

}  // namespace

template <simd::Isa, class T>
void embedding_forward_cpu(const EmbeddingShape& shape, const std::int32_t* tokens,
                           RowBlocks<const std::type_identity_t<T>> token_table,
                           RowBlocks<const std::type_identity_t<T>> position_table, T* y) {
  for (Index sequence = 0; sequence < shape.sequences; ++sequence) {
    for (Index position = 0; position < shape.context; ++position) {
      const Index token = token_of(tokens[sequence * (shape.context + 1) + position]);
      const T* __restrict a = token_table.row(token);
      T* __restrict out = y + (sequence * shape.context + position) * shape.width;
      if (position_table.blocking.rows == 0) {
        __builtin_memcpy(out, a, sizeof(T) * static_cast<std::size_t>(shape.width));
        continue;
      }
      const T* __restrict b = position_table.row(shape.first + position);
#pragma omp simd
      for (Index i = 0; i < shape.width; ++i) simd::put(out + i, to_float(a[i]) + to_float(b[i]));
    }
  }
}

template <simd::Isa, class T, class G>
void embedding_backward_token_cpu(const EmbeddingShape& shape, const TableBlock& block,
                                  const std::int32_t* tokens, const T* dy, bool accumulate,
                                  G* dtable) {
  if (!accumulate)
    __builtin_memset(dtable, 0, sizeof(G) * static_cast<std::size_t>(block.rows * shape.width));
  if constexpr (!simd::kIsRounded<G>) {
    for (Index at = 0; at < shape.sequences * shape.context; ++at) {
      const Index row = token_of(tokens[at + at / shape.context]) - block.first_row;
      if (row < 0 || row >= block.rows) continue;
      add(shape.width, dy + at * shape.width, dtable + row * shape.width);
    }
  } else {
    const Chains chains(shape, block, tokens);
    for (Index row = 0; row < block.rows; ++row) {
      if (chains.first(row) < 0) continue;
      for_each_strip(shape.width, true, dtable + row * shape.width,
                     [&](Index first, Index columns, float* sums) {
                       for (Index at = chains.first(row); at >= 0; at = chains.after(at))
                         add(columns, dy + at * shape.width + first, sums);
                     });
    }
  }
}

template <simd::Isa, class T, class G>
void embedding_backward_position_cpu(const EmbeddingShape& shape, const TableBlock& block,
                                     const T* dy, bool accumulate, G* dtable) {
  for (Index row = 0; row < block.rows; ++row) {
    const Index position = block.first_row + row;
    for_each_strip(shape.width, accumulate, dtable + row * shape.width,
                   [&](Index first, Index columns, float* sums) {
                     if (position >= shape.context) return;
                     for (Index sequence = 0; sequence < shape.sequences; ++sequence) {
                       const Index at = sequence * shape.context + position;
                       add(columns, dy + at * shape.width + first, sums);
                     }
                   });
  }
}

template void embedding_forward_cpu<kIsa, float>(const EmbeddingShape&, const std::int32_t*,
                                                 RowBlocks<const float>, RowBlocks<const float>,
                                                 float*);
template void embedding_forward_cpu<kIsa, BF16>(const EmbeddingShape&, const std::int32_t*,
                                                RowBlocks<const BF16>, RowBlocks<const BF16>,
                                                BF16*);
template void embedding_backward_token_cpu<kIsa>(const EmbeddingShape&, const TableBlock&,
                                                 const std::int32_t*, const float*, bool, float*);
template void embedding_backward_token_cpu<kIsa>(const EmbeddingShape&, const TableBlock&,
                                                 const std::int32_t*, const BF16*, bool, float*);
template void embedding_backward_token_cpu<kIsa>(const EmbeddingShape&, const TableBlock&,
                                                 const std::int32_t*, const BF16*, bool, BF16*);
template void embedding_backward_position_cpu<kIsa>(const EmbeddingShape&, const TableBlock&,
                                                    const float*, bool, float*);
template void embedding_backward_position_cpu<kIsa>(const EmbeddingShape&, const TableBlock&,
                                                    const BF16*, bool, float*);
template void embedding_backward_position_cpu<kIsa>(const EmbeddingShape&, const TableBlock&,
                                                    const BF16*, bool, BF16*);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "codelets/linear/low_rank_codelet.hpp"
#include "reference/low_rank.hpp"

namespace dos::test {

/// Adapters of parts of a product, and how their second matrix is cut.
struct LowRankCase {
  reference::LowRank sizes;
  Index rows_per_block;

  [[nodiscard]] Index rows() const {
    Index sum = 0;
    for (const reference::LowRankPart& part : sizes.parts) sum += part.rows;
    return sum;
  }
  [[nodiscard]] RowBlocking blocking() const { return {rows(), sizes.rank, rows_per_block}; }
  [[nodiscard]] codelets::LowRankArgs args() const {
    codelets::LowRankArgs args{.shape = {.rank = sizes.rank,
                                         .out = sizes.out,
                                         .scale = sizes.scale,
                                         .count = std::ssize(sizes.parts)},
                               .rows = {0, sizes.tokens}};
    for (std::size_t k = 0; k < sizes.parts.size(); ++k)
      args.shape.parts[k] = {sizes.parts[k].first, sizes.parts[k].rows};
    return args;
  }
};

/// Whole products, parts with gaps before and behind them, blocks that hold rows of several parts;
/// the last are larger than the strip in which BF16 results take shape.
inline std::vector<LowRankCase> low_rank_shapes() {
  return {{{0, 2, 5, 1, {{0, 5}}}, 5},
          {{1, 1, 1, 2, {{0, 1}}}, 1},
          {{3, 2, 7, 0.5F, {{0, 7}}}, 3},
          {{5, 3, 24, 1.75F, {{0, 12}, {18, 6}}}, 18},
          {{4, 4, 30, 2, {{2, 9}, {11, 8}, {21, 7}}}, 7},
          {{33, 8, 64, 4, {{16, 16}}}, 8},
          {{520, 5, 300, 0.25F, {{0, 270}, {290, 10}}}, 128}};
}

/// What an implementation sees, of memory anywhere.
template <class T>
struct LowRankTask {
  codelets::LowRankArgs args;
  std::span<const T> dy;
  std::span<T> y;
  /// One of the two, by the operation.
  std::span<T> between;
  typename codelets::buffers::Matrix<rt::Mode::kRead, T>::template Blocks<const T> up;
};

template <class T, class G>
struct LowRankWeightTask {
  codelets::LowRankArgs args;
  std::span<const T> dy;
  std::span<const T> between;
  typename codelets::buffers::Block<rt::Mode::kReadWrite, G>::template OneBlock<G> dup;
};

}  // namespace dos::test

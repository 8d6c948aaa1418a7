// SPDX-License-Identifier: Apache-2.0
// The arithmetic of CUDA launches, on the host.
#include "codelets/cuda/kernel_launch.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/bf16.hpp"
#include "codelets/cuda/ordered_sum.hpp"
#include "codelets/embedding/table_batches.hpp"
#include "codelets/reduce/clip_factor.hpp"

namespace dos::test::cuda_launch_test {
namespace {

using namespace codelets::cuda;

TEST(CudaLaunch, BlocksCoverTheItemsOrFillTheGrid) {
  EXPECT_EQ(grid_blocks(0, 256, 100), 0);
  EXPECT_EQ(grid_blocks(1, 256, 100), 1);
  EXPECT_EQ(grid_blocks(256, 256, 100), 1);
  EXPECT_EQ(grid_blocks(257, 256, 100), 2);
  EXPECT_EQ(grid_blocks(Index{1} << 40, 256, 100), 100);
}

TEST(CudaLaunch, PacksEndBeforeTheTail) {
  static_assert(kPack<float> == 4 && kPack<BF16> == 8 && kPack<BF16, float> == 4);
  for (const Index count : {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 1001}) {
    EXPECT_EQ((packed_elements<BF16>(count, false)), 0);
    EXPECT_EQ((packed_elements<BF16>(count, true)), count / 8 * 8);
    EXPECT_EQ((packed_elements<float, BF16>(count, true)), count / 4 * 4);
  }
}

TEST(CudaLaunch, RowsStayAlignedWhenTheirWidthIsWholeWords) {
  EXPECT_TRUE(rows_stay_aligned(768, 2));
  EXPECT_TRUE(rows_stay_aligned(4, 4));
  EXPECT_FALSE(rows_stay_aligned(4, 2));
  EXPECT_FALSE(rows_stay_aligned(50257, 4));
}

TEST(CudaLaunch, TheHeadOfAnArrayEndsAtAWord) {
  alignas(16) std::array<std::byte, 64> memory{};
  for (const Index size : {2, 4})
    for (Index offset = 0; offset < 16; offset += size)
      for (const Index count : {0, 1, 3, 20}) {
        const std::byte* array = memory.data() + offset;
        const Index head = elements_to_alignment(array, size, count);
        EXPECT_LE(head, count);
        EXPECT_TRUE(head == count || aligned(array + head * size));
        EXPECT_TRUE(head == 0 || !aligned(array + (head - 1) * size) || head == count);
        EXPECT_LT(head * size, kWord);
      }
}

TEST(CudaLaunch, PartsShareAllRowsAlmostEqually) {
  for (const Index rows : {0, 1, 5, 63, 64, 65, 1000, 8192, 100'003})
    for (const Index parts : {1, 2, 7, 256}) {
      Index next = 0;
      const RowParts all(rows, parts);
      for (Index part = 0; part < parts; ++part) {
        const RowsOfPart r = all.part(part);
        EXPECT_EQ(r.first, next);
        EXPECT_GE(r.count, rows / parts);
        EXPECT_LE(r.count, rows / parts + 1);
        next += r.count;
      }
      EXPECT_EQ(next, rows);
    }
}

TEST(CudaLaunch, PartsFitTheirRoom) {
  EXPECT_EQ(parts_for(0, 4, 1 << 20), 1);
  EXPECT_EQ(parts_for(64, 4, 1 << 20), 1);
  EXPECT_EQ(parts_for(65, 4, 1 << 20), 2);
  EXPECT_EQ(parts_for(1 << 30, 4, 1 << 20), kMostParts);
  EXPECT_EQ(parts_for(1 << 30, 1 << 18, 1 << 20), 4);
  EXPECT_EQ(parts_for(1 << 30, 1 << 21, 1 << 20), 0);
}

TEST(CudaLaunch, BatchesOfScalarsHoldEachOnceInOrder) {
  for (const Index count : {0, 1, 255, 256, 257, 1000}) {
    std::vector<double> values(static_cast<std::size_t>(count));
    std::vector<double*> all;
    for (double& value : values) all.push_back(&value);
    std::vector<double*> seen;
    for (Index b = 0; b < scalar_batches(count); ++b) {
      const auto batch = scalar_batch(std::span<double* const>(all), b);
      seen.insert(seen.end(), batch.at, batch.at + batch.count);
    }
    EXPECT_EQ(seen, all);
  }
  EXPECT_EQ(scalar_batches(0), 1);
}

TEST(CudaLaunch, BatchesOfATableFindEveryRowOnce) {
  for (const RowBlocking& blocking :
       {RowBlocking{1, 3, 1}, RowBlocking{50, 3, 7}, RowBlocking{64, 2, 1}, RowBlocking{65, 2, 1},
        RowBlocking{1000, 1, 3}}) {
    std::vector<float> table(static_cast<std::size_t>(blocking.rows * blocking.columns));
    std::vector<const void*> blocks;
    for (Index b = 0; b < blocking.count(); ++b)
      blocks.push_back(table.data() + blocking.first_row(b) * blocking.columns);
    for (Index row = 0; row < blocking.rows; ++row) {
      int found = 0;
      for (Index b = 0; b < table_batches(blocking); ++b) {
        const TableBatch batch = table_batch(blocking, blocks.data(), b);
        const auto* at = find_row<float>(batch, row, blocking.columns);
        if (at == nullptr) continue;
        EXPECT_EQ(at, table.data() + row * blocking.columns);
        ++found;
      }
      EXPECT_EQ(found, 1) << row;
    }
  }
}

TEST(ClipFactor, SkipsWhatIsNotFinite) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(codelets::clip_factor(4, 1, 1).factor, static_cast<float>(1 / (2 + 1e-6)));
  EXPECT_EQ(codelets::clip_factor(4, 0, 1).factor, 1);
  EXPECT_EQ(codelets::clip_factor(4, 3, 1).factor, 1);
  EXPECT_TRUE(std::isnan(codelets::clip_factor(kInf, 1, 1).factor));
  EXPECT_TRUE(std::isnan(codelets::clip_factor(kInf - kInf, 1, 1).factor));
  EXPECT_TRUE(std::isnan(codelets::clip_factor(4, 1, std::nanf("")).factor));
}

}  // namespace
}  // namespace dos::test::cuda_launch_test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/bf16.hpp"
#include "base/types.hpp"

/// Matrices whose rows do not follow each other: kernels neither read nor write what lies between.
namespace dos::test {

struct RowGap {
  Index count;  ///< elements between two rows
  float fill;
};
/// Numbers show what is written, NaNs what is read.
inline constexpr RowGap kRowGaps[] = {{0, 0}, {3, 7}, {5, std::numeric_limits<float>::quiet_NaN()}};

/// Rows of so many values, with a gap behind each.
inline std::vector<float> with_gaps(std::span<const float> values, Index columns,
                                    const RowGap& gap) {
  std::vector<float> result;
  for (Index first = 0; first < std::ssize(values); first += columns) {
    const auto row =
        values.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(columns));
    result.insert(result.end(), row.begin(), row.end());
    result.insert(result.end(), static_cast<std::size_t>(gap.count), gap.fill);
  }
  return result;
}

/// The rows alone; expects that the gaps are as they were made.
template <class T>
std::vector<T> without_gaps(std::span<const T> values, Index columns, const RowGap& gap) {
  std::vector<T> result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (static_cast<Index>(i) % (columns + gap.count) < columns) {
      result.push_back(values[i]);
      continue;
    }
    const float kept = to_float(values[i]);
    EXPECT_TRUE(kept == gap.fill || (std::isnan(kept) && std::isnan(gap.fill)))
        << "element " << i << ", between two rows, became " << kept;
  }
  return result;
}

}  // namespace dos::test

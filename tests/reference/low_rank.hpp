// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "reference/bounded.hpp"

/// Adapters of low rank of columns of a product, one token after the other.
namespace dos::reference {

/// Columns first .. first + rows - 1 of y[tokens, out] are those of a part.
struct LowRankPart {
  Index first;
  Index rows;
};

struct LowRank {
  Index tokens;
  Index rank;
  Index out;
  float scale;
  std::vector<LowRankPart> parts;

  [[nodiscard]] Index width() const { return rank * static_cast<Index>(parts.size()); }
  /// use(part, k, row of `up`, column of y) for each row of each part's second matrix.
  template <class Use>
  void each_row(const Use& use) const {
    Index row = 0;
    for (std::size_t k = 0; k < parts.size(); ++k)
      for (Index i = 0; i < parts[k].rows; ++i)
        use(static_cast<Index>(k), row++, parts[k].first + i);
  }
};

/// y + what the adapters add to it.
inline Bounded low_rank_forward(const LowRank& s, const float* between, const float* up,
                                const float* y) {
  Bounded sum(s.tokens * s.out);
  for (Index i = 0; i < s.tokens * s.out; ++i) sum.add(i, y[i]);
  for (Index t = 0; t < s.tokens; ++t)
    s.each_row([&](Index k, Index row, Index column) {
      for (Index r = 0; r < s.rank; ++r)
        sum.add(t * s.out + column, static_cast<double>(between[t * s.width() + k * s.rank + r]) *
                                        up[row * s.rank + r]);
    });
  return sum;
}

/// scale times dy up, of each part.
inline Bounded low_rank_data_gradient(const LowRank& s, const float* dy, const float* up) {
  Bounded sum(s.tokens * s.width());
  for (Index t = 0; t < s.tokens; ++t)
    s.each_row([&](Index k, Index row, Index column) {
      for (Index r = 0; r < s.rank; ++r)
        sum.add(t * s.width() + k * s.rank + r, static_cast<double>(s.scale) *
                                                    dy[t * s.out + column] *
                                                    static_cast<double>(up[row * s.rank + r]));
    });
  return sum;
}

/// The gradient of `up`, all of its rows, plus `before` unless null.
inline Bounded low_rank_weight_gradient(const LowRank& s, const float* dy, const float* between,
                                        const float* before) {
  Index rows = 0;
  for (const LowRankPart& part : s.parts) rows += part.rows;
  Bounded sum(rows * s.rank);
  s.each_row([&](Index k, Index row, Index column) {
    for (Index r = 0; r < s.rank; ++r) {
      for (Index t = 0; t < s.tokens; ++t)
        sum.add(row * s.rank + r, static_cast<double>(dy[t * s.out + column]) *
                                      between[t * s.width() + k * s.rank + r]);
      if (before != nullptr) sum.add(row * s.rank + r, before[row * s.rank + r]);
    }
  });
  return sum;
}

}  // namespace dos::reference

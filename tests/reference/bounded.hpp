// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/types.hpp"

/// The formulas as plain loops in double precision. They share no code with the product.
namespace dos::reference {

/// Results, and for each the sum of the absolute values of the terms that were added up for it:
/// rounding errors are relative to that sum, not to the result.
struct Bounded {
  std::vector<double> value;
  std::vector<double> magnitude;

  explicit Bounded(Index count)
      : value(static_cast<std::size_t>(count)), magnitude(static_cast<std::size_t>(count)) {}

  void add(Index i, double term) {
    value[static_cast<std::size_t>(i)] += term;
    magnitude[static_cast<std::size_t>(i)] += std::abs(term);
  }
};

}  // namespace dos::reference

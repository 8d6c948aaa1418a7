// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "base/types.hpp"

namespace dos::watch {

/// Of those that are finite; NaN where none is.
inline double mean_of(std::span<const double> values) {
  double sum = 0;
  Index count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

}  // namespace dos::watch

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <math.h>

#include "base/host_device.hpp"

namespace dos::codelets {

/// What the updates of one step need to know of the whole gradient.
struct ClipResult {
  double norm;   ///< global L2 norm before clipping
  float factor;  ///< min(1, max_norm / (norm + 1e-6)), or NaN: the update must be skipped
};

/// The formula of combine_norm (reduce.hpp) for the sum of all squares.
DOS_HD static ClipResult clip_factor(double sum_of_squares, float max_norm, float previous) {
  // Keeps the factor away from a division by zero.
  constexpr double kTiny = 1e-6;
  const double norm = sqrt(sum_of_squares);
  const bool finite = norm - norm == 0;
  if (!finite || previous != previous) return {norm, __builtin_nanf("")};
  const double limit = max_norm;
  if (limit <= 0 || limit >= norm + kTiny) return {norm, 1.0F};
  return {norm, static_cast<float>(limit / (norm + kTiny))};
}

}  // namespace dos::codelets

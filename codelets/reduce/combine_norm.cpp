// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "codelets/reduce/reduce.hpp"

namespace dos::codelets {

ClipResult combine_norm(std::span<const double> sums, float max_norm, float previous) {
  // Keeps the factor away from a division by zero.
  constexpr double kTiny = 1e-6;
  double total = 0;
  for (const double sum : sums) total += sum;
  const double norm = std::sqrt(total);
  if (!std::isfinite(norm) || std::isnan(previous)) {
    return {norm, std::numeric_limits<float>::quiet_NaN()};
  }
  const double limit = max_norm;
  if (limit <= 0 || limit >= norm + kTiny) return {norm, 1.0F};
  return {norm, static_cast<float>(limit / (norm + kTiny))};
}

}  // namespace dos::codelets

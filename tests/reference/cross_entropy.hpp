// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "reference/bounded.hpp"

namespace dos::reference {

/// softmax(x)[0 .. count-1].
inline std::vector<double> softmax(Index count, const float* x) {
  const double largest = *std::max_element(x, x + count);
  std::vector<double> p(static_cast<std::size_t>(count));
  double sum = 0;
  for (Index i = 0; i < count; ++i)
    sum += p[static_cast<std::size_t>(i)] = std::exp(x[i] - largest);
  for (double& value : p) value /= sum;
  return p;
}

/// -log softmax(x)[target].
inline double negative_log_likelihood(Index count, const float* x, Index target) {
  const double largest = *std::max_element(x, x + count);
  double sum = 0;
  for (Index i = 0; i < count; ++i) sum += std::exp(x[i] - largest);
  return std::log(sum) + largest - x[target];
}

}  // namespace dos::reference

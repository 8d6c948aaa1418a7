// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/bounded.hpp"

namespace dos::reference {

struct RowStatistics {
  double mean = 0;
  double rstd = 0;
  double mean_magnitude = 0;  ///< mean of |x|
};

inline RowStatistics row_statistics(Index width, const float* x, double epsilon) {
  RowStatistics s;
  const auto n = static_cast<double>(width);
  for (Index i = 0; i < width; ++i) {
    s.mean += x[i] / n;
    s.mean_magnitude += std::abs(x[i]) / n;
  }
  double variance = 0;
  for (Index i = 0; i < width; ++i) variance += (x[i] - s.mean) * (x[i] - s.mean) / n;
  s.rstd = 1.0 / std::sqrt(variance + epsilon);
  return s;
}

/// y = (x - mean) rstd w + b; the magnitude counts x and mean separately: their difference is as
/// exact as they are.
inline Bounded layernorm(Index tokens, Index width, const float* x, const float* weight,
                         const float* bias, double epsilon) {
  Bounded y(tokens * width);
  for (Index t = 0; t < tokens; ++t) {
    const RowStatistics s = row_statistics(width, x + t * width, epsilon);
    for (Index i = 0; i < width; ++i) {
      const Index at = t * width + i;
      const auto k = static_cast<std::size_t>(at);
      y.value[k] = (x[at] - s.mean) * s.rstd * weight[i] + bias[i];
      y.magnitude[k] =
          (std::abs(x[at]) + s.mean_magnitude) * s.rstd * std::abs(weight[i]) + std::abs(bias[i]);
    }
  }
  return y;
}

/// dx of layernorm from given statistics (mean, rstd) pairs, plus residual unless null.
inline Bounded layernorm_data_gradient(Index tokens, Index width, const float* x,
                                       const float* weight, const float* statistics,
                                       const float* dy, const float* residual) {
  Bounded dx(tokens * width);
  const auto n = static_cast<double>(width);
  for (Index t = 0; t < tokens; ++t) {
    const double mean = statistics[2 * t];
    const double rstd = statistics[2 * t + 1];
    for (Index i = 0; i < width; ++i) {
      const Index at = t * width + i;
      const double xhat = (x[at] - mean) * rstd;
      dx.add(at, rstd * weight[i] * dy[at]);
      for (Index j = 0; j < width; ++j) {
        const Index other = t * width + j;
        const double g = static_cast<double>(weight[j]) * dy[other];
        dx.add(at, -rstd * g / n);
        dx.add(at, -rstd * g * ((x[other] - mean) * rstd) * xhat / n);
      }
      if (residual != nullptr) dx.add(at, residual[at]);
    }
  }
  return dx;
}

/// dweight[width], then dbias[width], each plus what `before` holds unless null.
inline Bounded layernorm_weight_gradient(Index tokens, Index width, const float* x,
                                         const float* statistics, const float* dy,
                                         const float* before) {
  Bounded d(2 * width);
  for (Index i = 0; i < width; ++i) {
    for (Index t = 0; t < tokens; ++t) {
      const double g = dy[t * width + i];
      const double mean = statistics[2 * t];
      d.add(i, g * (x[t * width + i] - mean) * statistics[2 * t + 1]);
      d.add(width + i, g);
    }
    if (before != nullptr) {
      d.add(i, before[i]);
      d.add(width + i, before[width + i]);
    }
  }
  return d;
}

}  // namespace dos::reference

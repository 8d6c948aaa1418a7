// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/bounded.hpp"

namespace dos::reference {

/// 1 / sqrt(mean of x^2 + epsilon).
inline double inverse_root(Index width, const float* x, double epsilon) {
  double squares = 0;
  for (Index i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * x[i];
  return 1.0 / std::sqrt(squares / static_cast<double>(width) + epsilon);
}

/// One vector of y = x rstd w.
inline Bounded rmsnorm(Index width, const float* x, const float* weight, double epsilon) {
  Bounded y(width);
  const double rstd = inverse_root(width, x, epsilon);
  for (Index i = 0; i < width; ++i) y.add(i, x[i] * rstd * weight[i]);
  return y;
}

/// One vector of dx, the derivative of the formula above term by term, plus residual unless null.
inline Bounded rmsnorm_data_gradient(Index width, const float* x, const float* weight,
                                     double epsilon, const float* dy, const float* residual) {
  Bounded dx(width);
  const double rstd = inverse_root(width, x, epsilon);
  const double cube = rstd * rstd * rstd / static_cast<double>(width);
  for (Index i = 0; i < width; ++i) {
    dx.add(i, rstd * weight[i] * dy[i]);
    // d rstd / dx_i = -rstd^3 x_i / width
    for (Index j = 0; j < width; ++j)
      dx.add(i, -cube * x[i] * (static_cast<double>(x[j]) * weight[j] * dy[j]));
    if (residual != nullptr) dx.add(i, residual[i]);
  }
  return dx;
}

/// Adds one vector's part of dweight.
inline void add_rmsnorm_weight_gradient(Index width, const float* x, double epsilon,
                                        const float* dy, Bounded& dweight, Index first) {
  const double rstd = inverse_root(width, x, epsilon);
  for (Index i = 0; i < width; ++i) dweight.add(first + i, dy[i] * (x[i] * rstd));
}

}  // namespace dos::reference

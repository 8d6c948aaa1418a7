// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <numbers>

namespace dos::reference {

/// u of 0.5 x (1 + tanh(u)).
inline double gelu_argument(double x) {
  return std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
}

inline double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(gelu_argument(x)));
}

inline double gelu_derivative(double x) {
  const double u = gelu_argument(x);
  const double slope = std::sqrt(2.0 / std::numbers::pi) * (1.0 + 3.0 * 0.044715 * x * x);
  const double cosh_u = std::cosh(u);
  return 0.5 * (1.0 + std::tanh(u)) + 0.5 * x * slope / (cosh_u * cosh_u);
}

}  // namespace dos::reference

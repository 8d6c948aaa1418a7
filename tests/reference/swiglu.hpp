// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/bounded.hpp"

namespace dos::reference {

inline double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

/// The second term of silu', x times the sigmoid's derivative; the first is the sigmoid.
inline double silu_bend(double x) {
  const double cosh_half = std::cosh(x / 2);
  return x / (4 * cosh_half * cosh_half);
}

/// silu(gate) * up of rows [2 * hidden] of gate, then up.
inline Bounded swiglu(Index tokens, Index hidden, const float* x) {
  Bounded out(tokens * hidden);
  for (Index t = 0; t < tokens; ++t)
    for (Index i = 0; i < hidden; ++i) {
      const float* gate = x + 2 * t * hidden + i;
      out.add(t * hidden + i, silu(gate[0]) * gate[hidden]);
    }
  return out;
}

/// Gradients of such rows from those of the result.
inline Bounded swiglu_gradient(Index tokens, Index hidden, const float* x, const float* dout) {
  Bounded dx(2 * tokens * hidden);
  for (Index t = 0; t < tokens; ++t)
    for (Index i = 0; i < hidden; ++i) {
      const Index at = 2 * t * hidden + i;
      const double gate = x[at];
      const double dy = dout[t * hidden + i];
      dx.add(at, dy * x[at + hidden] / (1.0 + std::exp(-gate)));
      dx.add(at, dy * x[at + hidden] * silu_bend(gate));
      dx.add(at + hidden, dy * silu(gate));
    }
  return dx;
}

}  // namespace dos::reference

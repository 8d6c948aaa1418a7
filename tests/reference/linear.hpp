// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/bounded.hpp"

namespace dos::reference {

/// y[tokens, out] = x[tokens, in] w[out, in]^T + bias + residual; the last two may be null.
inline Bounded linear(Index tokens, Index in, Index out, const float* x, const float* w,
                      const float* bias, const float* residual) {
  Bounded y(tokens * out);
  for (Index t = 0; t < tokens; ++t) {
    for (Index o = 0; o < out; ++o) {
      const Index at = t * out + o;
      for (Index i = 0; i < in; ++i) y.add(at, static_cast<double>(x[t * in + i]) * w[o * in + i]);
      if (bias != nullptr) y.add(at, bias[o]);
      if (residual != nullptr) y.add(at, residual[at]);
    }
  }
  return y;
}

/// dx[tokens, in] = dy[tokens, out] w[out, in].
inline Bounded linear_data_gradient(Index tokens, Index in, Index out, const float* dy,
                                    const float* w) {
  Bounded dx(tokens * in);
  for (Index t = 0; t < tokens; ++t) {
    for (Index i = 0; i < in; ++i) {
      for (Index o = 0; o < out; ++o) {
        dx.add(t * in + i, static_cast<double>(dy[t * out + o]) * w[o * in + i]);
      }
    }
  }
  return dx;
}

/// Rows first_row .. first_row + rows - 1 of dw[out, in] = dy^T x, plus `before` unless null.
inline Bounded linear_weight_gradient(Index tokens, Index in, Index out, Index first_row,
                                      Index rows, const float* dy, const float* x,
                                      const float* before) {
  Bounded dw(rows * in);
  for (Index r = 0; r < rows; ++r) {
    for (Index i = 0; i < in; ++i) {
      for (Index t = 0; t < tokens; ++t) {
        dw.add(r * in + i, static_cast<double>(dy[t * out + first_row + r]) * x[t * in + i]);
      }
      if (before != nullptr) dw.add(r * in + i, before[r * in + i]);
    }
  }
  return dw;
}

/// Column sums of dy[tokens, out], plus `before` unless null.
inline Bounded bias_gradient(Index tokens, Index out, const float* dy, const float* before) {
  Bounded dbias(out);
  for (Index o = 0; o < out; ++o) {
    for (Index t = 0; t < tokens; ++t) dbias.add(o, dy[t * out + o]);
    if (before != nullptr) dbias.add(o, before[o]);
  }
  return dbias;
}

}  // namespace dos::reference

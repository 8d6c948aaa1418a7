// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/host_device.hpp"

namespace dos::codelets {

struct Silu {
  float value;  ///< x s, with s = 1 / (1 + e^-x) the sigmoid of x
  float slope;  ///< the derivative, s + x s (1 - s)
};

/// Silu of x from e = e^-|x| and inverse = 1 / (1 + e), for every x: e is at most 1, and s and 1 -
/// s are 1 / (1 + e) and e / (1 + e), or the other way round, so that nothing cancels. With e off
/// by E eps of 2^-23, relative, and to first order, these two are off by E e / (1 + e) + 1 and E /
/// (1 + e) + 1.5 eps, the value by at most E + 2, and the slope by E + 4 eps of the sum of its two
/// terms' sizes. Both are NaN for NaN and -inf; of +inf the value is +inf.
DOS_HD static Silu silu(float x, float e, float inverse) {
  const float shrunk = e * inverse;
  const float s = x < 0.0F ? shrunk : inverse;
  const float rest = x < 0.0F ? inverse : shrunk;
  const float value = x * s;
  return {value, s + value * rest};
}
DOS_HD static Silu silu(float x, float e) {
  return silu(x, e, 1.0F / (1.0F + e));
}

}  // namespace dos::codelets

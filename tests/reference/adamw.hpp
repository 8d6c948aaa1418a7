// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/rule.hpp"

namespace dos::reference {

/// Loshchilov & Hutter, algorithm 2, with decay lr * weight_decay * p. States m, v.
inline void adamw(const Hyper& h, Tracked& p, Tracked* states, Tracked g) {
  Tracked& m = states[0];
  Tracked& v = states[1];
  m = h.beta1 * m + (1 - h.beta1) * g;
  v = h.beta2 * v + (1 - h.beta2) * g * g;
  const Tracked m_hat = m / (1 - power(h.beta1, h.step));
  const Tracked v_hat = v / (1 - power(h.beta2, h.step));
  p = p - h.lr * m_hat / (sqrt(v_hat) + h.eps) - h.lr * h.weight_decay * p;
}

}  // namespace dos::reference

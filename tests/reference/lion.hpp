// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/rule.hpp"

namespace dos::reference {

/// Chen et al., algorithm 2: the sign of an interpolation, then the momentum. State: momentum.
inline void lion(const Hyper& h, Tracked& p, Tracked* states, Tracked g) {
  Tracked& m = states[0];
  const Tracked c = h.beta1 * m + (1 - h.beta1) * g;
  p = p - h.lr * sign(c) - h.lr * h.weight_decay * p;
  m = h.beta2 * m + (1 - h.beta2) * g;
}

}  // namespace dos::reference

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/rule.hpp"

namespace dos::reference {

/// torch.optim.SGD with momentum and no dampening, and decay lr * weight_decay * p. State: buffer.
inline void sgd(const Hyper& h, Tracked& p, Tracked* states, Tracked g) {
  Tracked& buffer = states[0];
  buffer = h.momentum * buffer + g;
  p = p - h.lr * buffer - h.lr * h.weight_decay * p;
}

}  // namespace dos::reference

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/rule.hpp"

namespace dos::reference {

/// torch.optim.Adagrad without learning-rate decay, and decay lr * weight_decay * p. State: sum.
inline void adagrad(const Hyper& h, Tracked& p, Tracked* states, Tracked g) {
  Tracked& sum = states[0];
  sum = sum + g * g;
  p = p - h.lr * g / (sqrt(sum) + h.eps) - h.lr * h.weight_decay * p;
}

}  // namespace dos::reference

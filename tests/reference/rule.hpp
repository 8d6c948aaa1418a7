// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reference/tracked.hpp"

namespace dos::reference {

/// What a step depends on besides the parameter; step counts from 1.
struct Hyper {
  Tracked lr;
  Tracked beta1;
  Tracked beta2;
  Tracked momentum;
  Tracked eps;
  Tracked weight_decay;
  long long step;
};

/// The FP32 hyper-parameters that a kernel is given, as exact numbers.
template <class Hyperparameters>
Hyper exact_hyper(const Hyperparameters& h, float lr, long long step) {
  const auto exact = [](float value) { return Tracked(static_cast<double>(value)); };
  return {.lr = exact(lr),
          .beta1 = exact(h.beta1),
          .beta2 = exact(h.beta2),
          .momentum = exact(h.momentum),
          .eps = exact(h.eps),
          .weight_decay = exact(h.weight_decay),
          .step = step};
}

/// One step of one parameter: p and its states, with gradient g.
using RuleFormula = void (*)(const Hyper& h, Tracked& p, Tracked* states, Tracked g);

}  // namespace dos::reference

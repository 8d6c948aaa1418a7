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

/// One step of one parameter: p and its states, with gradient g.
using RuleFormula = void (*)(const Hyper& h, Tracked& p, Tracked* states, Tracked g);

}  // namespace dos::reference

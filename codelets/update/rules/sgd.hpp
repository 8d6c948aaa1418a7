// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/update/rule.hpp"

namespace dos::codelets::rules {

/// Gradient descent with momentum as in PyTorch (no dampening), weight decay decoupled: Loshchilov
/// & Hutter, "Decoupled weight decay regularization", ICLR'19, algorithm 1.
struct Sgd {
  static constexpr const char* kName = "sgd";
  static constexpr const char* kStates[] = {"momentum"};
  static constexpr double kOperations = 6;

  // OpenCL C begins.
  struct Step {
    float lr;
    float momentum;
    float weight_decay;
  };

  DOS_HD static void element(float* p, float* m, float g, struct Step s) {
    *m = s.momentum * *m + g;
    *p -= s.lr * (*m + s.weight_decay * *p);
  }
  // OpenCL C ends.

  static Step step(const Hyperparameters& h, float learning_rate, Index /*step*/) {
    return {.lr = learning_rate, .momentum = h.momentum, .weight_decay = h.weight_decay};
  }
};

}  // namespace dos::codelets::rules

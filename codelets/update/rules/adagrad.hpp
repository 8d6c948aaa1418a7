// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/update/rule.hpp"

namespace dos::codelets::rules {

/// Duchi, Hazan & Singer, "Adaptive subgradient methods for online learning and stochastic
/// optimization", JMLR 12 (2011), with eps beside the root as in PyTorch and decoupled decay.
struct Adagrad {
  static constexpr const char* kName = "adagrad";
  static constexpr const char* kStates[] = {"sum_of_squares"};
  static constexpr double kOperations = 9;

  // OpenCL C begins.
  struct Step {
    float lr;
    float eps;
    float weight_decay;
  };

  DOS_HD static void element(float* p, float* sum, float g, struct Step s) {
    *sum += g * g;
    *p -= s.lr * (g / (square_root(*sum) + s.eps) + s.weight_decay * *p);
  }
  // OpenCL C ends.

  static Step step(const Hyperparameters& h, float learning_rate, Index /*step*/) {
    return {.lr = learning_rate, .eps = h.eps, .weight_decay = h.weight_decay};
  }
};

}  // namespace dos::codelets::rules

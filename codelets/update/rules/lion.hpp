// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/update/rule.hpp"

namespace dos::codelets::rules {

/// Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS'23, algorithm 2.
struct Lion {
  static constexpr const char* kName = "lion";
  static constexpr const char* kStates[] = {"momentum"};
  static constexpr double kOperations = 12;

  // OpenCL C begins.
  struct Step {
    float lr;
    float beta1;
    float beta2;
    float weight_decay;
  };

  DOS_HD static void element(float* p, float* m, float g, struct Step s) {
    const float c = s.beta1 * *m + (1.0F - s.beta1) * g;
    const float sign = c > 0.0F ? 1.0F : (c < 0.0F ? -1.0F : c);  // NaN stays NaN
    *p -= s.lr * (sign + s.weight_decay * *p);
    *m = s.beta2 * *m + (1.0F - s.beta2) * g;
  }
  // OpenCL C ends.

  static Step step(const Hyperparameters& h, float learning_rate, Index /*step*/) {
    return {
        .lr = learning_rate, .beta1 = h.beta1, .beta2 = h.beta2, .weight_decay = h.weight_decay};
  }
};

}  // namespace dos::codelets::rules

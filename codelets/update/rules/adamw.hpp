// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/update/rule.hpp"

namespace dos::codelets::rules {

/// Loshchilov & Hutter, "Decoupled weight decay regularization", ICLR'19, algorithm 2.
struct AdamW {
  static constexpr const char* kName = "adamw";
  static constexpr const char* kStates[] = {"first_moment", "second_moment"};
  static constexpr double kOperations = 16;

  // OpenCL C begins.
  struct Step {
    float lr;
    float beta1;
    float beta2;
    float eps;
    float weight_decay;
    float inv_bias1;
    float inv_bias2;
  };

  DOS_HD static void element(float* p, float* m, float* v, float g, struct Step s) {
    *m = s.beta1 * *m + (1.0F - s.beta1) * g;
    *v = s.beta2 * *v + (1.0F - s.beta2) * g * g;
    *p -= s.lr * (*m * s.inv_bias1 / (square_root(*v * s.inv_bias2) + s.eps) + s.weight_decay * *p);
  }
  // OpenCL C ends.

  static Step step(const Hyperparameters& h, float learning_rate, Index step) {
    return {.lr = learning_rate,
            .beta1 = h.beta1,
            .beta2 = h.beta2,
            .eps = h.eps,
            .weight_decay = h.weight_decay,
            .inv_bias1 = inverse_bias(h.beta1, step),
            .inv_bias2 = inverse_bias(h.beta2, step)};
  }
};

}  // namespace dos::codelets::rules

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

namespace dos::reference {

/// Hyperparameters of one step of AdamW; step counts from 1.
struct AdamW {
  double lr;
  double beta1;
  double beta2;
  double eps;
  double weight_decay;
  int step;
};

struct AdamWState {
  double p;
  double m;
  double v;
};

/// Loshchilov & Hutter, algorithm 2, with decay lr * weight_decay * p.
inline AdamWState adamw(const AdamW& a, AdamWState s, double gradient) {
  s.m = a.beta1 * s.m + (1 - a.beta1) * gradient;
  s.v = a.beta2 * s.v + (1 - a.beta2) * gradient * gradient;
  const double m_hat = s.m / (1 - std::pow(a.beta1, a.step));
  const double v_hat = s.v / (1 - std::pow(a.beta2, a.step));
  s.p -= a.lr * m_hat / (std::sqrt(v_hat) + a.eps) + a.lr * a.weight_decay * s.p;
  return s;
}

}  // namespace dos::reference

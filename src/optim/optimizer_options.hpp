// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/range.hpp"

namespace dos::optim {

struct OptimizerOptions {
  static constexpr Range kDecayRates{.least = 0, .most = 1, .has_most = false};
  static constexpr Range kEps = kPositive;
  static constexpr Range kWeightDecays = kNotNegative;
  static constexpr Range kClips{
      .least = 0, .words = "not be negative", .note = " (0 switches clipping off)"};

  std::string rule = "adamw";  ///< a name of known_rules()
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float momentum = 0.9F;
  float eps = 1e-8F;
  float weight_decay = 0.1F;
  float clip = 1.0F;  ///< largest global gradient norm; 0: no clipping

  /// Throws Error naming the first value out of range, whether the rule uses it or not.
  void validate() const;
};

}  // namespace dos::optim

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "codelets/update/rule.hpp"

namespace dos::codelets {

/// A rule as a value: what code that is the same for all rules needs.
struct RuleInfo {
  const char* name;
  std::span<const char* const> states;  ///< their names
  double operations;
  std::size_t step_size;  ///< bytes of its Step
  StepBytes (*step)(const Hyperparameters& hyperparameters, float learning_rate, Index step);
};

/// In the order of AllRules: a rule's number is its index.
std::span<const RuleInfo> all_rules();

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace dos::ranks {

/// Finds a rank that holds the others up: whose tasks of a step took more than kSlow times the
/// median of all ranks', and kLeastMs more, in kSteps steps one after the other.
class StragglerWatch {
 public:
  static constexpr double kSlow = 1.5;
  static constexpr double kLeastMs = 50;  ///< less is the system's noise
  static constexpr Index kSteps = 3;

  /// `busy_ms` by rank: the time within which the step's tasks ran. Returns a line that names the
  /// rank and the times when it is slow for the kSteps-th time running, and each time it is again.
  std::optional<std::string> see(std::span<const double> busy_ms);

 private:
  std::vector<Index> slow_steps_;
};

}  // namespace dos::ranks

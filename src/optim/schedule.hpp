// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/range.hpp"
#include "base/types.hpp"

namespace dos::optim {

/// Learning rate over the steps of a run: linear warm-up from peak / warmup to peak, then constant,
/// linear or half a cosine from peak towards final_ratio * peak, which the step behind the last
/// would have.
class LearningRate {
 public:
  static constexpr Range kPeaks = kPositive;
  static constexpr Range kFinalRatios = between(0, 1);  ///< ignored by constant
  static constexpr Range kWarmups = kNotNegative;       ///< steps

  struct Options {
    std::string schedule;  ///< constant, linear or cosine
    double peak;
    double final_ratio;
    Index warmup;
    Index steps;  ///< of the whole run
  };
  /// Throws Error for an unknown schedule (listing the known ones) or a value out of range.
  explicit LearningRate(const Options& options);

  /// Rate of step `step`, counted from 1.
  [[nodiscard]] double at(Index step) const;

  static std::vector<std::string> known_schedules();
  /// Throws Error, with the nearest name, for another one.
  static void expect_known(const std::string& schedule);

 private:
  Options options_;
  double (*decay_)(double progress);  ///< from 1 at progress 0 to 0 at progress 1
};

}  // namespace dos::optim

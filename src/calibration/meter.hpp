// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "calibration/statistics.hpp"
#include "rt/submitter.hpp"

namespace dos::calibration {

using Action = std::function<void()>;

/// Seconds that `action` takes.
double seconds_of(const Action& action);

/// Times work of a session by the wall clock.
class Meter {
 public:
  Meter(rt::Submitter& submitter, const Effort& effort) : submitter_(submitter), effort_(effort) {}

  /// From the submission of the first task to the end of the last.
  double run(const Action& submit) const;

  /// `amount` a second, of tasks that `submit` submits: after two runs that do not count, readings
  /// of as many runs, one behind the other, as last effort.least_seconds.
  [[nodiscard]] Summary rate(double amount, const Action& submit) const;

  [[nodiscard]] const Effort& effort() const { return effort_; }
  [[nodiscard]] rt::Submitter& submitter() const { return submitter_; }
  [[nodiscard]] rt::Session& session() const { return submitter_.session(); }

 private:
  rt::Submitter& submitter_;
  Effort effort_;
};

}  // namespace dos::calibration

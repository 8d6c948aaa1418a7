// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "sched_starpu/tuning.hpp"

namespace dos::sched_starpu {

/// How long a step took from its first update's arrival on; 0 where nobody knows.
struct StepTimes {
  units::Seconds step{0};     ///< until the first update of the next step arrives
  units::Seconds updates{0};  ///< until its last update ends
};

/// Holds a plan against all updates on the CPU, where updates take longer than planned, or steps
/// longer than the first, which had none: then the model of the machine lacks something, and what
/// it says of other plans is as doubtful. Some steps of each are measured, once, and the faster
/// holds; the CPU only if it is faster than the plan both before and after it, as a machine, and
/// other ranks, change meanwhile (docs/adr/0060-a-plan-that-fails-is-tried.md).
class PlanTrial {
 public:
  explicit PlanTrial(const Tuning& tuning = {}) : tuning_(tuning) {}

  /// The first step is over: all updates ran on the CPU, but for those that showed GPUs' rates.
  void see_first(units::Seconds step) { first_ = step.value(); }
  /// A step is over that went by the plan, or without GPUs if is_on_cpu(), from its beginning to
  /// its end. `planned`: the duration of its updates; `on_cpu`: what all of them take on the CPU at
  /// least, and so a step without GPUs: it is not tried where that is too long. Returns whether
  /// is_on_cpu() has changed.
  bool see(const StepTimes& times, units::Seconds planned, units::Seconds on_cpu);

  /// Whether all updates are to run on the CPU.
  [[nodiscard]] bool is_on_cpu() const { return state_ == State::kTries || state_ == State::kCpu; }
  /// What was tried and why; empty before.
  [[nodiscard]] std::string in_words() const;

 private:
  enum class State { kWatches, kTries, kReturns, kPlan, kCpu };

  /// Whether steps on the CPU were shorter than these of the plan.
  [[nodiscard]] bool cpu_beats(const std::vector<double>& by_plan) const;

  Tuning tuning_;
  State state_ = State::kWatches;
  std::vector<double> by_plan_;  ///< steps, seconds
  std::vector<double> on_cpu_;
  std::vector<double> by_plan_again_;
  double first_ = 0;    ///< step; 0: not known
  std::string reason_;  ///< of the trial
};

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/plan_trial.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dos::sched_starpu {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

bool PlanTrial::see(const StepTimes& times, units::Seconds planned, units::Seconds on_cpu) {
  const auto is_full = [&](const std::vector<double>& steps) {
    return std::ssize(steps) >= tuning_.trial_steps;
  };
  if (state_ == State::kWatches) {
    const double step = times.step.value();
    const bool is_late = times.updates >= planned * tuning_.trial_from;
    const bool may_gain = on_cpu.value() < step * (1 - tuning_.trial_gain);
    // One after another: what goes wrong now and then is no fault of the plan.
    if (!may_gain || (!is_late && !(first_ > 0 && step > first_))) {
      by_plan_.clear();
      return false;
    }
    by_plan_.push_back(step);
    if (!is_full(by_plan_)) return false;
    state_ = State::kTries;
    reason_ =
        is_late
            ? fmt::format("updates took {:.2f} times as long as planned", times.updates / planned)
            : fmt::format("steps took {:.4g} s, the first, without a plan, {:.4g} s", step, first_);
    return true;
  }
  if (state_ != State::kTries) return false;
  on_cpu_.push_back(times.step.value());
  if (!is_full(on_cpu_)) return false;
  const bool is_faster = median(on_cpu_) < median(by_plan_) * (1 - tuning_.trial_gain);
  state_ = is_faster ? State::kCpu : State::kPlan;
  return !is_faster;
}

std::string PlanTrial::in_words() const {
  if (state_ == State::kWatches) return "";
  if (state_ == State::kTries) return reason_ + "; all updates on the CPU are tried";
  return fmt::format("{}; with all updates on the CPU steps took {:.4g} s, by the plan {:.4g} s",
                     reason_, median(on_cpu_), median(by_plan_));
}

}  // namespace dos::sched_starpu

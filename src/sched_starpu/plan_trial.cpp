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

bool PlanTrial::cpu_beats(const std::vector<double>& by_plan) const {
  return median(on_cpu_) < median(by_plan) * (1 - tuning_.trial_gain);
}

bool PlanTrial::see(const StepTimes& times, units::Seconds planned, units::Seconds on_cpu) {
  const double step = times.step.value();
  const auto fills = [&](std::vector<double>& steps) {
    steps.push_back(step);
    return std::ssize(steps) >= tuning_.trial_steps;
  };
  switch (state_) {
    case State::kWatches: {
      const bool is_late = times.updates >= planned * tuning_.trial_from;
      const bool may_gain = on_cpu.value() < step * (1 - tuning_.trial_gain);
      // One after another: what goes wrong now and then is no fault of the plan.
      if (!may_gain || (!is_late && !(first_ > 0 && step > first_))) {
        by_plan_.clear();
        return false;
      }
      if (!fills(by_plan_)) return false;
      state_ = State::kTries;
      reason_ = is_late ? fmt::format("updates took {:.2f} times as long as planned",
                                      times.updates / planned)
                        : fmt::format("steps took {:.4g} s, the first, without a plan, {:.4g} s",
                                      step, first_);
      return true;
    }
    case State::kTries:
      if (!fills(on_cpu_)) return false;
      state_ = cpu_beats(by_plan_) ? State::kReturns : State::kPlan;
      return true;
    case State::kReturns:
      if (!fills(by_plan_again_)) return false;
      state_ = cpu_beats(by_plan_again_) ? State::kCpu : State::kPlan;
      return state_ == State::kCpu;
    case State::kPlan:
    case State::kCpu:
      break;
  }
  return false;
}

std::string PlanTrial::in_words() const {
  if (state_ == State::kWatches) return "";
  if (state_ == State::kTries) return reason_ + "; all updates on the CPU are tried";
  std::string text =
      fmt::format("{}; with all updates on the CPU steps took {:.4g} s, by the plan {:.4g} s",
                  reason_, median(on_cpu_), median(by_plan_));
  if (state_ == State::kReturns)
    text += "; the plan is measured again";
  else if (!by_plan_again_.empty())
    text += fmt::format(" before and {:.4g} s after", median(by_plan_again_));
  return text;
}

}  // namespace dos::sched_starpu

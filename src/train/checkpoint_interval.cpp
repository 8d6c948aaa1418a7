// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_interval.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace dos::train {
namespace {

using perfmodels::IntervalLimit;

std::string reason_of(IntervalLimit limit, double mtbf_s) {
  if (limit == IntervalLimit::kNone) return "neither the device nor what they cost asks for fewer";
  if (limit == IntervalLimit::kDevice) return "the device writes no faster";
  return fmt::format(
      "with a failure in {:.3g} h more of them would cost more, in {}, than they save",
      mtbf_s / 3600, limit == IntervalLimit::kWaits ? "waits" : "steps that are longer");
}

}  // namespace

void SlowedSteps::see(double step_s, bool is_beside_checkpoint) {
  constexpr double kKept = 31.0 / 32;
  if (!std::exchange(has_begun_, true)) return;
  if (!is_beside_checkpoint) return alone_.add(step_s, kKept);
  if (alone_.weight == 0) return;
  this_excess_ += step_s - alone_.sum / alone_.weight;
  is_compared_ = true;
}

void SlowedSteps::checkpoint_ended() {
  constexpr double kKept = 7.0 / 8;
  const double excess = std::exchange(this_excess_, 0);
  if (std::exchange(is_compared_, false)) excess_.add(excess, kKept);
}

double SlowedSteps::seconds() const {
  return excess_.weight > 0 ? std::max(0.0, excess_.sum / excess_.weight) : 0.0;
}

AutoInterval::AutoInterval(Index start, double mtbf_s) : mtbf_s_(mtbf_s), last_(start) {}

bool AutoInterval::is_due(Index step) {
  const Index rest = taken_ % kRestEvery == kRestEvery - 1 ? kRest : 0;
  if (!is_measured_ || step < last_ + steps_ + rest) return false;
  ++taken_;
  last_ = step;
  is_measured_ = false;
  return true;
}

std::optional<std::string> AutoInterval::see(const CheckpointCosts& last) {
  is_measured_ = true;
  const std::optional<CheckpointCosts> former = std::exchange(former_, last);
  if (!former) return std::nullopt;
  CheckpointCosts costs = last;
  costs.write_s = std::min(costs.write_s, former->write_s);
  costs.waited_s = std::min(costs.waited_s, former->waited_s);
  const perfmodels::CheckpointInterval chosen = perfmodels::choose_interval(costs, mtbf_s_);
  steps_ = chosen.steps;
  // What varies by a quarter from one to the next is no news.
  if (told_ > 0 && 4 * std::abs(steps_ - told_) <= told_) return std::nullopt;
  told_ = steps_;
  return fmt::format(
      "a checkpoint every {}: it takes {:.3g} s to write, kept updates waiting for {:.3g} s and "
      "makes steps longer by {:.3g} s in all; a step takes {:.3g} s; {}",
      steps_ == 1 ? std::string("step") : fmt::format("{} steps", steps_), costs.write_s,
      costs.waited_s, costs.slowed_s, costs.step_s, reason_of(chosen.limit, mtbf_s_));
}

}  // namespace dos::train

// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_interval.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace dos::train {

AutoInterval::AutoInterval(Index start, double mtbf_s) : mtbf_s_(mtbf_s), last_(start) {}

bool AutoInterval::is_due(Index step) {
  if (!is_measured_ || step < last_ + steps_) return false;
  last_ = step;
  is_measured_ = false;
  return true;
}

std::optional<std::string> AutoInterval::see(const CheckpointCosts& costs) {
  is_measured_ = true;
  const perfmodels::CheckpointInterval chosen = perfmodels::choose_interval(costs, mtbf_s_);
  steps_ = chosen.steps;
  // What varies by a quarter from one to the next is no news.
  if (told_ > 0 && 4 * std::abs(steps_ - told_) <= told_) return std::nullopt;
  told_ = steps_;
  return fmt::format(
      "a checkpoint every {} steps: it takes {:.3g} s to write and kept updates waiting for {:.3g} "
      "s, a step takes {:.3g} s; {}",
      steps_, costs.write_s, costs.waited_s, costs.step_s,
      chosen.device_limits
          ? std::string("the device writes no faster")
          : fmt::format("with a failure in {:.3g} h more of them would cost more than they save",
                        mtbf_s_ / 3600));
}

}  // namespace dos::train

// SPDX-License-Identifier: Apache-2.0
#include "perfmodels/checkpoint_interval.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace dos::perfmodels {
namespace {

/// Steps that last at least so long; far less than what an Index holds.
Index steps_of(double seconds, double step_s) {
  constexpr double kMost = 1e15;
  return static_cast<Index>(std::clamp(std::ceil(seconds / step_s), 1.0, kMost));
}

}  // namespace

CheckpointInterval choose_interval(const CheckpointCosts& costs, double mtbf_s) {
  require(costs.step_s > 0 && mtbf_s > 0, "steps that take time, and failures that come");
  const Index device = steps_of(costs.write_s / kMostDeviceTime, costs.step_s);
  const double cost_s = std::max(costs.waited_s, costs.slowed_s);
  const Index pays = steps_of(std::sqrt(2 * cost_s * mtbf_s), costs.step_s);
  if (std::max(device, pays) == 1) return {};
  if (device >= pays) return {.steps = device, .limit = IntervalLimit::kDevice};
  return {
      .steps = pays,
      .limit = costs.slowed_s > costs.waited_s ? IntervalLimit::kSlowed : IntervalLimit::kWaits};
}

}  // namespace dos::perfmodels

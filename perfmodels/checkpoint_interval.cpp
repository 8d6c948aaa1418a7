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
  const Index pays = steps_of(std::sqrt(2 * costs.waited_s * mtbf_s), costs.step_s);
  return {.steps = std::max(device, pays), .device_limits = device >= pays};
}

}  // namespace dos::perfmodels

// SPDX-License-Identifier: Apache-2.0
#include "ranks/straggler.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dos::ranks {

std::optional<std::string> StragglerWatch::see(std::span<const double> busy_ms) {
  slow_steps_.resize(busy_ms.size(), 0);
  std::vector<double> sorted(busy_ms.begin(), busy_ms.end());
  // The lower middle: of two ranks the faster one.
  const auto middle = sorted.begin() + (std::ssize(sorted) - 1) / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  const double median = *middle;
  std::optional<std::string> line;
  for (std::size_t rank = 0; rank < busy_ms.size(); ++rank) {
    const bool slow =
        median > 0 && busy_ms[rank] > kSlow * median && busy_ms[rank] > median + kLeastMs;
    slow_steps_[rank] = slow ? slow_steps_[rank] + 1 : 0;
    if (slow_steps_[rank] != kSteps) continue;
    slow_steps_[rank] = 0;
    line = fmt::format(
        "rank {} is slow: its tasks took {:.0f} ms, the median rank's {:.0f} ms, in "
        "each of {} steps",
        rank, busy_ms[rank], median, kSteps);
  }
  return line;
}

}  // namespace dos::ranks

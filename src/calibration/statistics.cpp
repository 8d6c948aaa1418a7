// SPDX-License-Identifier: Apache-2.0
#include "calibration/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.hpp"

namespace dos::calibration {
namespace {

double quantile(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Summary summarise(std::vector<double> values) {
  require(!values.empty(), "a summary of at least one reading");
  for (const double value : values)
    require(std::isfinite(value) && value > 0, "a reading that is positive and finite");
  std::sort(values.begin(), values.end());
  const double median = quantile(values, 0.5);
  return {.median = median,
          .spread = (quantile(values, 0.75) - quantile(values, 0.25)) / median,
          .rounds = std::ssize(values)};
}

Summary repeat(const Effort& effort, const std::function<double()>& read) {
  require(effort.rounds >= 1 && effort.attempts >= 1, "at least one round of one attempt");
  std::optional<Summary> calmest;
  for (Index attempt = 0; attempt < effort.attempts; ++attempt) {
    std::vector<double> values;
    for (Index round = 0; round < effort.rounds; ++round) values.push_back(read());
    const Summary summary = summarise(std::move(values));
    if (!calmest || summary.spread < calmest->spread) calmest = summary;
    if (calmest->spread <= effort.most_spread) break;
  }
  return *calmest;
}

}  // namespace dos::calibration

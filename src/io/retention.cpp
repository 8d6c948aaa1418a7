// SPDX-License-Identifier: Apache-2.0
#include "io/retention.hpp"

#include <chrono>
#include <optional>

#include "base/error.hpp"

namespace dos::io {

std::vector<Index> surplus(std::span<const CheckpointAge> checkpoints, const Retention& retention) {
  require(retention.keep >= 1 && retention.every_hours >= 0, "at least one checkpoint is kept");
  const std::chrono::duration<double, std::ratio<3600>> apart(retention.every_hours);
  const Index older = std::ssize(checkpoints) - retention.keep;
  std::optional<std::filesystem::file_time_type> mark;
  std::vector<Index> steps;
  for (Index i = 0; i < older; ++i) {
    const CheckpointAge& each = checkpoints[static_cast<std::size_t>(i)];
    const bool is_mark =
        retention.every_hours > 0 && (!mark || std::chrono::abs(each.written - *mark) >= apart);
    if (is_mark) mark = each.written;
    if (!is_mark && !each.is_needed) steps.push_back(each.step);
  }
  return steps;
}

}  // namespace dos::io

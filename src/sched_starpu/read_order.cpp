// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/read_order.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace dos::sched_starpu {

void ReadOrder::read(const void* buffer, units::Bytes bytes) {
  if (!now_.empty() && now_.back().buffer == buffer) return;
  now_.push_back({buffer, bytes});
  read_ += bytes;
}

void ReadOrder::end_step() {
  last_ = std::exchange(now_, {});
  read_ = units::Bytes(0);
}

std::vector<const void*> ReadOrder::next(units::Bytes room) const {
  std::vector<const void*> buffers;
  std::unordered_set<const void*> seen;
  const std::size_t position = now_.size();
  const bool is_known = position == 0 || (position <= last_.size() &&
                                          last_[position - 1].buffer == now_.back().buffer);
  if (!is_known) return buffers;
  units::Bytes sum{0};
  for (std::size_t i = position; i < last_.size(); ++i) {
    if (!seen.insert(last_[i].buffer).second) continue;
    sum += last_[i].bytes;
    if (sum > room) break;
    buffers.push_back(last_[i].buffer);
  }
  return buffers;
}

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "base/quantity.hpp"
#include "base/types.hpp"

namespace dos::sched_starpu {

/// How fast a device updates, from what is known best: its updates, else what a performance model
/// suggests, else a glimpse. Does not allocate.
///
/// The median of the last updates: the thread that drives a GPU sees late that a kernel has ended
/// while it allocates memory, and then the next one's end at once. A rate follows a change within
/// eight updates.
class LearnedRate {
 public:
  /// An update with data at hand. The first one may have loaded a kernel: a suggestion is better.
  void see(units::ParamsPerSecond rate) {
    if (++seen_ == 1 && is_suggested_) return;
    last_[static_cast<std::size_t>(newest_++ % kLast)] = rate;
    std::array<units::ParamsPerSecond, kLast> sorted = last_;
    const auto end = sorted.begin() + std::min(newest_, kLast);
    const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
    std::nth_element(sorted.begin(), middle, end);
    value_ = *middle;
  }
  /// What a performance model says; counts while nothing else is known.
  void suggest(units::ParamsPerSecond rate) {
    if (value_) return;
    value_ = rate;
    is_suggested_ = true;
  }
  /// An update that had to bring its buffers along, which makes it seem slow.
  void glimpse(units::ParamsPerSecond rate) {
    if (seen_ == 0 && !is_suggested_) value_ = value_ ? std::max(*value_, rate) : rate;
  }

  [[nodiscard]] const std::optional<units::ParamsPerSecond>& value() const { return value_; }
  [[nodiscard]] bool is_suggested() const { return is_suggested_; }
  [[nodiscard]] bool is_measured() const { return newest_ > 0; }

 private:
  static constexpr Index kLast = 15;
  std::array<units::ParamsPerSecond, kLast> last_{};
  Index newest_ = 0;  ///< how many were written to last_
  Index seen_ = 0;
  std::optional<units::ParamsPerSecond> value_;
  bool is_suggested_ = false;
};

}  // namespace dos::sched_starpu

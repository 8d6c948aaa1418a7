// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "base/types.hpp"

namespace dos::storage {

/// Spreads transfers over time, so that in no span of time more bytes begin than the rate lets
/// through, but for one transfer. One thread.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  /// 0: no limit. Pre: not negative.
  explicit RateLimit(double bytes_per_second);

  /// When a transfer of so many bytes may begin that could begin `now`; it counts as begun then.
  Clock::time_point begin(Index bytes, Clock::time_point now);

 private:
  double bytes_per_second_;
  Clock::time_point next_{};
};

}  // namespace dos::storage

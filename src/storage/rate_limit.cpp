// SPDX-License-Identifier: Apache-2.0
#include "storage/rate_limit.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace dos::storage {
namespace {

/// Three years: what the clock can count behind any time.
constexpr std::chrono::duration<double> kLongest{1e8};

}  // namespace

RateLimit::RateLimit(double bytes_per_second) : bytes_per_second_(bytes_per_second) {
  require(bytes_per_second >= 0, "a rate is not negative");
}

RateLimit::Clock::time_point RateLimit::begin(Index bytes, Clock::time_point now) {
  if (bytes_per_second_ == 0) return now;
  const Clock::time_point start = std::max(now, next_);
  const std::chrono::duration<double> seconds(static_cast<double>(bytes) / bytes_per_second_);
  next_ = start + std::chrono::ceil<Clock::duration>(std::min(seconds, kLongest));
  return start;
}

}  // namespace dos::storage

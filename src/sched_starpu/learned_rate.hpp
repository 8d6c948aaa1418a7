// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "base/quantity.hpp"
#include "sched_starpu/tuning.hpp"

namespace dos::sched_starpu {

/// The median of the last Tuning::recent_updates values. Does not allocate.
class RecentMedian {
 public:
  void add(double value) {
    last_[static_cast<std::size_t>(newest_++ % Tuning::recent_updates)] = value;
  }
  [[nodiscard]] Index count() const { return newest_; }
  /// Pre: count() > 0.
  [[nodiscard]] double value() const {
    std::array<double, Tuning::recent_updates> sorted = last_;
    const auto end = sorted.begin() + std::min(newest_, Tuning::recent_updates);
    const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
    std::nth_element(sorted.begin(), middle, end);
    return *middle;
  }

 private:
  std::array<double, Tuning::recent_updates> last_{};
  Index newest_ = 0;  ///< how many were written to last_
};

/// How fast a device updates, from what is known best: its updates, else what a performance model
/// suggests, else a glimpse. Does not allocate.
///
/// The rate is the median of the last large updates (Tuning::large_update): the thread that drives
/// a GPU sees late that a kernel has ended while it does something else, and then the next one's
/// end at once. Where kernels are as short as that, every second end is late: there `together`
/// large updates, one after another, are one value. What smaller updates take beyond the rate is
/// what every update costs, whatever its size.
class LearnedRate {
 public:
  /// Pre: 1 <= together <= Tuning::ends_together.
  explicit LearnedRate(const Tuning& tuning = {}, Index together = 1)
      : large_update_(tuning.large_update), together_(together) {}

  /// An update with data at hand. The first one may have loaded a kernel: a suggestion is better.
  void see(units::Params size, units::Seconds time) {
    if (++seen_ == 1 && is_suggested_) return;
    if (size.value() > largest_) {
      // What seemed large may be small.
      if (large_update_ * size.value() > largest_) {
        rates_ = {};
        run_ = {};
      }
      largest_ = size.value();
    }
    if (size.value() < large_update_ * largest_) {
      if (value_) overheads_.add((time - size / *value_).value());
      return;
    }
    // The first one, which may have loaded a kernel, would slow down those behind it.
    const Run last{.size = size, .time = time};
    rates_.add(seen_ == 1 ? last.rate() : with_those_before(last).rate());
    value_ = units::ParamsPerSecond(rates_.value());
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
  /// What an update takes beside its parameters; 0 while only large ones were seen.
  [[nodiscard]] units::Seconds overhead() const {
    return units::Seconds(overheads_.count() > 0 ? std::max(0.0, overheads_.value()) : 0);
  }
  [[nodiscard]] bool is_suggested() const { return is_suggested_; }
  [[nodiscard]] bool is_measured() const { return rates_.count() > 0; }

 private:
  struct Run {
    units::Params size{0};
    units::Seconds time{0};
    [[nodiscard]] double rate() const { return (size / time).value(); }
  };

  Run with_those_before(const Run& last) {
    run_[static_cast<std::size_t>(next_++ % together_)] = last;
    Run sum;
    for (const Run& each : run_) {
      sum.size += each.size;
      sum.time += each.time;
    }
    return sum;
  }

  double large_update_;
  Index together_;
  std::array<Run, Tuning::ends_together> run_{};  ///< large updates, the last `together`
  Index next_ = 0;
  RecentMedian rates_;
  RecentMedian overheads_;
  double largest_ = 0;  ///< parameters
  Index seen_ = 0;
  std::optional<units::ParamsPerSecond> value_;
  bool is_suggested_ = false;
};

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/quantity.hpp"
#include "base/types.hpp"

namespace dos::sched_starpu {

/// What a worker did with its time.
struct WorkerTimes {
  units::Seconds running;
  units::Seconds data;     ///< had a task, whose data were on their way
  units::Seconds window;   ///< had none: updates waited until the window had room
  units::Seconds nothing;  ///< had none: nothing was ready

  WorkerTimes& operator+=(const WorkerTimes& other) {
    running += other.running;
    data += other.data;
    window += other.window;
    nothing += other.nothing;
    return *this;
  }
  [[nodiscard]] units::Seconds total() const { return running + data + window + nothing; }
};

/// Divides the time of one worker from its first task on. A GPU's worker may take and start tasks
/// while one runs: the time belongs to what runs. Times in microseconds of one clock.
class WorkerClock {
 public:
  WorkerClock() = default;
  /// overlaps: whether a task may start before the one before it has ended.
  explicit WorkerClock(bool overlaps) : overlaps_(overlaps) {}

  /// Has asked for a task in vain.
  void refused(double now_us, bool window_is_full) {
    if (since_us_ < 0 || running_ > 0 || taken_ > 0) return;
    add(window_is_full ? times_.window : times_.nothing, now_us);
  }
  void took(double now_us) {
    if (running_ == 0) add(taken_ > 0 ? times_.data : times_.nothing, now_us);
    ++taken_;
  }
  void started(double now_us) {
    if (running_ == 0) add(times_.data, now_us);
    taken_ = std::max<Index>(0, taken_ - 1);
    // StarPU does not tell the end of a task of its own.
    running_ = overlaps_ ? running_ + 1 : 1;
  }
  void ended(double now_us) {
    if (running_ > 0) add(times_.running, now_us);
    running_ = std::max<Index>(0, running_ - 1);
    last_end_us_ = now_us;
  }

  [[nodiscard]] const WorkerTimes& times() const { return times_; }
  /// Of a task; negative before the first.
  [[nodiscard]] double last_end_us() const { return last_end_us_; }

 private:
  void add(units::Seconds& what, double now_us) {
    if (since_us_ >= 0) what += units::microseconds(std::max(0.0, now_us - since_us_));
    since_us_ = now_us;
  }

  bool overlaps_ = false;
  WorkerTimes times_;
  double since_us_ = -1;  ///< everything before it is divided; negative: nothing happened yet
  Index taken_ = 0;       ///< not started yet
  Index running_ = 0;
  double last_end_us_ = -1;
};

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/quantity.hpp"
#include "base/types.hpp"

namespace dos::sched_starpu {

/// What a worker did with its time.
struct WorkerTimes {
  units::Seconds running;
  units::Seconds data;     ///< had a task, whose data were on their way
  units::Seconds window;   ///< had none: updates waited until the window had room
  units::Seconds nothing;  ///< had none: nothing was ready

  WorkerTimes& operator+=(const WorkerTimes& other);
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
  void refused(double now_us, bool window_is_full);
  void took(double now_us);
  void started(double now_us);
  void ended(double now_us);

  [[nodiscard]] const WorkerTimes& times() const { return times_; }

 private:
  void add(units::Seconds& what, double now_us);

  bool overlaps_ = false;
  WorkerTimes times_;
  double since_us_ = -1;  ///< everything before it is divided; negative: nothing happened yet
  Index taken_ = 0;       ///< not started yet
  Index running_ = 0;
};

}  // namespace dos::sched_starpu

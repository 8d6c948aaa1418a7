// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "base/types.hpp"

namespace dos::sched_starpu {

/// When the workers of a group will have done what they have taken, by what is expected of the
/// tasks: nobody says when one that is no update ends.
class Load {
 public:
  /// A worker that does one task after the other takes one when the one before has ended; a GPU's
  /// takes the next while one runs.
  void add_worker(bool one_by_one) { workers_.push_back({.one_by_one = one_by_one}); }

  void take(Index worker, double now, double seconds) {
    Worker& which = workers_[static_cast<std::size_t>(worker)];
    // Tasks that end sooner than expected must not add up.
    const double ahead = which.one_by_one ? 0 : which.last;
    which.busy_until = std::min(std::max(which.busy_until, now), now + ahead) + seconds;
    which.last = seconds;
  }

  /// In how many seconds the next worker is free once `queued` seconds of work are divided among
  /// them, each piece to the one that is free first: the level to which the work fills them up.
  [[nodiscard]] double start_after(double queued, double now) const {
    double level = std::numeric_limits<double>::infinity();
    for (;;) {
      double work = queued;
      double highest = 0;
      Index sharing = 0;
      for (const Worker& each : workers_) {
        const double busy = std::max(0.0, each.busy_until - now);
        if (busy > level) continue;
        work += busy;
        highest = std::max(highest, busy);
        ++sharing;
      }
      if (sharing == 0) return 0;
      level = work / static_cast<double>(sharing);
      if (highest <= level) return level;
    }
  }

 private:
  struct Worker {
    bool one_by_one = true;
    double busy_until = 0;
    double last = 0;  ///< seconds of the task that it took last
  };
  std::vector<Worker> workers_;
};

/// When a group will have run its updates if each takes what was expected of it when it came: what
/// its plan, from the same rates, relies on. Updates that others take do not make it earlier. Times
/// are seconds of one clock.
class DueTime {
 public:
  /// Of every update: all workers together are at work on it for so long.
  void add_kernel(double now, double seconds) { kernels_ = std::max(kernels_, now) + seconds; }
  /// Of one whose states travel, besides: they come and go while residents are updated.
  void add_states(double now, double seconds) { states_ = std::max(states_, now) + seconds; }

  [[nodiscard]] double end() const { return std::max(kernels_, states_); }

 private:
  double kernels_ = 0;
  double states_ = 0;
};

}  // namespace dos::sched_starpu

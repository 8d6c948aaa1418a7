// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "base/types.hpp"

namespace dos::sched_starpu {

/// How fast the workers of a group get on with updates: what is expected of them, or worse, if the
/// last update took longer or one that runs already has. Rates follow a change over many updates;
/// this one sees it at the first.
class Pace {
 public:
  void add_worker() {
    workers_.emplace_back();
    free_in_.emplace_back();
  }
  [[nodiscard]] Index workers() const { return static_cast<Index>(workers_.size()); }

  /// A worker begins with an update; a GPU's may begin with a second one before the first ends.
  void begin(Index worker, double now) {
    Worker& which = workers_[static_cast<std::size_t>(worker)];
    if (which.running++ == 0) which.since = now;
  }
  void end(Index worker, double now, Index params) {
    Worker& which = workers_[static_cast<std::size_t>(worker)];
    --which.running;
    if (params > 0) last_ = (now - which.since) / static_cast<double>(params);
    which.since = now;
  }

  /// Seconds of one update of `params` parameters by one worker.
  [[nodiscard]] double seconds(double expected, Index params, double now) const {
    double worst = std::max(expected, last_ * static_cast<double>(params));
    for (const Worker& each : workers_)
      if (each.running > 0) worst = std::max(worst, now - each.since);
    return worst;
  }

  /// In how many seconds the last of `waiting` updates ends, at `one` second each, behind those
  /// that run. Pre: waiting > 0, and workers that do one after the other.
  [[nodiscard]] double time_left(Index waiting, double one, double now) const {
    for (std::size_t i = 0; i < workers_.size(); ++i)
      free_in_[i] = workers_[i].running > 0 ? std::max(0.0, one - (now - workers_[i].since)) : 0;
    const auto last = free_in_.begin() + (waiting - 1) % workers();
    std::nth_element(free_in_.begin(), last, free_in_.end());
    return *last + one * static_cast<double>(1 + (waiting - 1) / workers());
  }

 private:
  struct Worker {
    Index running = 0;
    double since = 0;  ///< when it began, or ended the update before
  };
  std::vector<Worker> workers_;
  mutable std::vector<double> free_in_;  ///< work space: seconds, by worker
  double last_ = 0;                      ///< seconds a parameter of the update that ended last
};

}  // namespace dos::sched_starpu

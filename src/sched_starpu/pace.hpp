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
  void add_worker() { workers_.emplace_back(); }
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

 private:
  struct Worker {
    Index running = 0;
    double since = 0;  ///< when it began, or ended the update before
  };
  std::vector<Worker> workers_;
  double last_ = 0;  ///< seconds a parameter of the update that ended last
};

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "base/types.hpp"
#include "sched_starpu/tuning.hpp"

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
    Worker& which = at(worker);
    if (which.running++ == 0) which.since = now;
  }
  void end(Index worker, double now, Index params) {
    Worker& which = at(worker);
    --which.running;
    if (params > 0) last_ = {.seconds = which.spent(now), .params = static_cast<double>(params)};
    which.since = now;
  }
  /// A worker begins with a task that is no update, or has run it: a GPU runs those of the next
  /// forward pass between updates that it has taken.
  void begin_other(Index worker, double now) {
    Worker& which = at(worker);
    if (which.others++ == 0) which.other_since = now;
  }
  void end_other(Index worker, double now) {
    Worker& which = at(worker);
    const double until = which.worked_until(now);
    if (--which.others == 0) which.since += now - until;
  }

  /// Whether the worker runs a task that is no update.
  [[nodiscard]] bool runs_other(Index worker) const {
    return workers_[static_cast<std::size_t>(worker)].others > 0;
  }

  /// Seconds of one update of `params` parameters by one worker.
  [[nodiscard]] double seconds(double expected, Index params, double now) const {
    const double larger = static_cast<double>(params) / last_.params;
    double worst = std::max(expected, last_.seconds * std::min(larger, Tuning::tells_of));
    for (const Worker& each : workers_)
      if (each.running > 0) worst = std::max(worst, each.spent(now));
    return worst;
  }

  /// In how many seconds the last of `waiting` updates ends, at `one` second each, behind those
  /// that run. Pre: waiting > 0, and workers that do one after the other.
  [[nodiscard]] double time_left(Index waiting, double one, double now) const {
    for (std::size_t i = 0; i < workers_.size(); ++i)
      free_in_[i] = workers_[i].running > 0 ? std::max(0.0, one - workers_[i].spent(now)) : 0;
    const auto last = free_in_.begin() + (waiting - 1) % workers();
    std::nth_element(free_in_.begin(), last, free_in_.end());
    return *last + one * static_cast<double>(1 + (waiting - 1) / workers());
  }

 private:
  struct Worker {
    Index running = 0;
    double since = 0;  ///< when it began, or ended the update before; later by other tasks' time
    Index others = 0;  ///< tasks that are no updates and run
    double other_since = 0;

    /// Until when it has worked at an update.
    [[nodiscard]] double worked_until(double now) const {
      return others > 0 ? std::max(other_since, since) : now;
    }
    [[nodiscard]] double spent(double now) const { return worked_until(now) - since; }
  };
  Worker& at(Index worker) { return workers_[static_cast<std::size_t>(worker)]; }

  std::vector<Worker> workers_;
  mutable std::vector<double> free_in_;  ///< work space: seconds, by worker
  struct {
    double seconds = 0;
    double params = 1;
  } last_;  ///< update that ended
};

}  // namespace dos::sched_starpu

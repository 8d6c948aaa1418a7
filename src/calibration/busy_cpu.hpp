// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "calibration/meter.hpp"
#include "calibration/update_set.hpp"

namespace dos::calibration {

/// Keeps the CPU busy with updates while something else is timed. Meter and load must outlive it.
class BusyCpu {
 public:
  BusyCpu(const Meter& meter, const UpdateSet& load) : meter_(meter), load_(load) {}

  /// What `trip` returns, its seconds, of one that ended before the updates beside it did. It is to
  /// call its argument, which starts them, when it is ready to begin.
  double seconds_beside(const std::function<double(const Action& begin)>& trip) {
    for (;; runs_ *= 2) {
      const double seconds = trip([&] {
        for (Index i = 0; i < runs_; ++i) load_.submit_updates(rt::kAnyCpuWorker);
      });
      const bool was_busy = meter_.session().pending_tasks() > 0;
      meter_.run([] {});
      if (was_busy) return seconds;
    }
  }

 private:
  const Meter& meter_;
  const UpdateSet& load_;
  Index runs_ = 1;
};

}  // namespace dos::calibration

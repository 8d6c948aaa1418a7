// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "base/types.hpp"

namespace dos::sched_starpu {

/// Residents move nothing but a gradient: enough of them at once to hide that.
inline constexpr Index kResidentsAtOnce = 16;

/// What the updates of one GPU hold of its memory: streamed ones from the start of their prefetch
/// until their states are back in host memory, residents while they wait for a gradient and run.
/// Times are seconds of any clock that does not run backwards.
class GpuWindow {
 public:
  struct Limits {
    Index window = 1;  ///< streamed updates that are prefetched or run at once
    Index slots = 1;  ///< streamed updates whose states fit in memory, also those on their way back
  };

  /// Whether one more may be prefetched. One always may when none is at work: what is on its way
  /// back does not stop the GPU.
  [[nodiscard]] bool has_room(bool resident, const Limits& limits, double now) const {
    if (resident) return residents_ < kResidentsAtOnce;
    return streamed_ == 0 ||
           (streamed_ < limits.window && streamed_ + returning(now) < limits.slots);
  }
  void enter(bool resident, double now) {
    if (at_work() == 0) working_since_ = now;
    if (!resident && streamed_ == 0) streaming_since_ = now;
    ++(resident ? residents_ : streamed_);
  }
  void leave(bool resident, double now) {
    working_since_ = now;
    if (!resident) streaming_since_ = now;
    --(resident ? residents_ : streamed_);
  }
  /// The states of one start their way back, which takes `seconds` once the link is free.
  void send_back(double now, double seconds) {
    last_return_ = seconds;
    returned_by_ = std::max(returned_by_, now) + seconds;
  }

  /// At work: prefetched or running.
  [[nodiscard]] Index at_work() const { return streamed_ + residents_; }
  [[nodiscard]] Index streamed() const { return streamed_; }
  /// Seconds since the one before ended, or the first entered: what the next has had of its time.
  [[nodiscard]] double working(double now) const {
    return at_work() > 0 ? now - working_since_ : 0;
  }
  /// The same among streamed ones.
  [[nodiscard]] double streaming(double now) const {
    return streamed_ > 0 ? now - streaming_since_ : 0;
  }
  [[nodiscard]] Index returning(double now) const {
    if (now >= returned_by_) return 0;
    return static_cast<Index>(std::ceil((returned_by_ - now) / last_return_ * (1 - kRounding)));
  }

 private:
  /// Of the sums above, relatively.
  static constexpr double kRounding = 1e-9;
  Index streamed_ = 0;
  Index residents_ = 0;
  double working_since_ = 0;
  double streaming_since_ = 0;
  double returned_by_ = 0;
  double last_return_ = 0;
};

}  // namespace dos::sched_starpu

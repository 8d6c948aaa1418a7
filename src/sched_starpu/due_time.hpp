// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

namespace dos::sched_starpu {

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

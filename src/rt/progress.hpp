// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::rt {

/// How far the tasks of this program are.
struct Progress {
  Index ready = 0;  ///< tasks that wait for no other: in the scheduler, on their way, or running
  Index started = 0;
  Index ended = 0;
};

/// Of the running session; from any thread.
Progress progress();

void note_start_of_task() noexcept;
void note_end_of_task() noexcept;

/// Finds out that the workers stand still though there is work. StarPU does not fail when a device
/// has no room for the next task's buffers and nothing is left that it could evict: the worker
/// tries again for ever, and what depends on the task waits.
class StallDetector {
 public:
  /// `patience`: how many looks in a row must show ready tasks of which none runs and none has
  /// ended. Looks, not time: a process that was stopped has not stalled.
  explicit StallDetector(Index patience) : patience_(patience) {}

  /// The next look; whether it is the last one needed.
  [[nodiscard]] bool has_stalled(const Progress& now);

 private:
  Index patience_;
  Index idle_looks_ = 0;
  Index ended_ = -1;
};

}  // namespace dos::rt

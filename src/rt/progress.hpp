// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace dos::rt {

/// Accesses to the memory of devices (rt::request_access), so far.
struct DeviceAccesses {
  Index due = 0;      ///< no task and no access that was submitted before has to end any more
  Index granted = 0;  ///< of them: they have memory, and the elements in it
  Index ended = 0;    ///< of those

  /// For memory, or for a copy.
  [[nodiscard]] Index waiting() const { return due - granted; }
  /// Whoever has them, another rank mostly, keeps their memory from all others.
  [[nodiscard]] Index held() const { return granted - ended; }
  bool operator==(const DeviceAccesses&) const = default;
};

/// How far the tasks of this program are, and what else takes memory of devices.
struct Progress {
  Index ready = 0;  ///< tasks that wait for no other: in the scheduler, on their way, or running
  Index started = 0;
  Index ended = 0;
  DeviceAccesses accesses = {};
  Index transfers = 0;  ///< of files, that have not ended; progress() knows none
};

/// Of the running session; from any thread.
Progress progress();

void note_start_of_task() noexcept;
void note_end_of_task() noexcept;

void note_due_access() noexcept;
void note_granted_access() noexcept;
void note_end_of_access() noexcept;

/// Finds out that nothing happens though there is work. StarPU does not fail when a device has no
/// room for the next task's buffers, or for an access, and nothing is left that it could evict: it
/// tries again for ever, and what depends on the task or the access waits.
///
/// Transfers that have not ended may be what all waits for: a disk that hangs goes on, or fails.
///
/// An access alone is no sign of that while another one is held: its holder may be another rank,
/// which takes as long as it takes, and the memory comes back when it is done. So ranks that wait
/// for each other, each for memory that the others' messages hold, are not found.
class StallDetector {
 public:
  /// `patience`: how many looks in a row must show ready tasks, or accesses that wait while none is
  /// held, and that no task runs, no transfer is under way, and neither a task nor an access has
  /// got on. Looks, not time: a process that was stopped has not stalled.
  explicit StallDetector(Index patience) : patience_(patience) {}

  /// The next look; whether it is the last one needed.
  [[nodiscard]] bool has_stalled(const Progress& now);

 private:
  Index patience_;
  Index idle_looks_ = 0;
  Progress before_{.ended = -1};
};

}  // namespace dos::rt

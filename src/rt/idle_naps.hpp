// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace dos::rt {

/// Has CPU workers without a task sleep between two looks for one. StarPU's look without end: they
/// take the core from whatever has work, as other ranks, readers of data and the exchange's thread
/// where there are fewer cores than threads.
///
/// A worker that has waited for a time t looks again after t / 8, at most after half a millisecond:
/// no wait grows by more than an eighth. Gaps of less than 0.4 ms see no sleep. Workers of devices
/// look for the end of their tasks, too, and never sleep. Does nothing with a StarPU whose workers
/// block, or whose time is simulated.
///
/// Lives from after starpu_init to before starpu_shutdown.
class IdleNaps {
 public:
  IdleNaps();
  IdleNaps(const IdleNaps&) = delete;
  IdleNaps& operator=(const IdleNaps&) = delete;
  ~IdleNaps();

 private:
  int hook_;
};

/// How long a worker sleeps that has had no task for `idle`; 0 if not at all.
std::chrono::nanoseconds nap_after(std::chrono::nanoseconds idle);

/// Said by every task on the thread that runs it.
void note_work() noexcept;

}  // namespace dos::rt

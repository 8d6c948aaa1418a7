// SPDX-License-Identifier: Apache-2.0
#include "rt/progress.hpp"

#include <starpu.h>

#include <atomic>

namespace dos::rt {
namespace {

std::atomic<Index> started_tasks = 0;
std::atomic<Index> ended_tasks = 0;
std::atomic<Index> due_accesses = 0;
std::atomic<Index> granted_accesses = 0;
std::atomic<Index> ended_accesses = 0;

}  // namespace

Progress progress() {
  // In this order: a task that starts meanwhile counts as running, never the other way round, and
  // an access that is granted meanwhile as one that waits no longer, and is held.
  const Index ready = starpu_task_nready();
  const Index ended = ended_tasks.load();
  const Index ended_access = ended_accesses.load();
  const Index due = due_accesses.load();
  return {.ready = ready,
          .started = started_tasks.load(),
          .ended = ended,
          .accesses = {.due = due, .granted = granted_accesses.load(), .ended = ended_access}};
}

void note_start_of_task() noexcept {
  started_tasks.fetch_add(1, std::memory_order_relaxed);
}

void note_end_of_task() noexcept {
  ended_tasks.fetch_add(1, std::memory_order_relaxed);
}

void note_due_access() noexcept {
  due_accesses.fetch_add(1, std::memory_order_relaxed);
}

void note_granted_access() noexcept {
  granted_accesses.fetch_add(1, std::memory_order_relaxed);
}

void note_end_of_access() noexcept {
  ended_accesses.fetch_add(1, std::memory_order_relaxed);
}

bool StallDetector::has_stalled(const Progress& now) {
  const bool has_work = now.ready > 0 || (now.accesses.waiting() > 0 && now.accesses.held() == 0);
  const bool is_idle = has_work && now.transfers == 0 && now.started == now.ended &&
                       now.ended == before_.ended && now.accesses == before_.accesses;
  before_ = now;
  idle_looks_ = is_idle ? idle_looks_ + 1 : 0;
  return idle_looks_ >= patience_;
}

}  // namespace dos::rt

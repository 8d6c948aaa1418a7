// SPDX-License-Identifier: Apache-2.0
#include "rt/progress.hpp"

#include <starpu.h>

#include <atomic>

namespace dos::rt {
namespace {

std::atomic<Index> started_tasks = 0;
std::atomic<Index> ended_tasks = 0;

}  // namespace

Progress progress() {
  // In this order: a task that starts meanwhile counts as running, never the other way round.
  const Index ready = starpu_task_nready();
  const Index ended = ended_tasks.load();
  return {.ready = ready, .started = started_tasks.load(), .ended = ended};
}

void note_start_of_task() noexcept {
  started_tasks.fetch_add(1, std::memory_order_relaxed);
}

void note_end_of_task() noexcept {
  ended_tasks.fetch_add(1, std::memory_order_relaxed);
}

bool StallDetector::has_stalled(const Progress& now) {
  const bool is_idle = now.ready > 0 && now.started == now.ended && now.ended == ended_;
  ended_ = now.ended;
  idle_looks_ = is_idle ? idle_looks_ + 1 : 0;
  return idle_looks_ >= patience_;
}

}  // namespace dos::rt

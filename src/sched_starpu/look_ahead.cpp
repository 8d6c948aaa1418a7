// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/look_ahead.hpp"

#include <algorithm>
#include <vector>

namespace dos::sched_starpu {
namespace {

starpu_data_handle_t handle_of(const void* buffer) {
  return static_cast<starpu_data_handle_t>(const_cast<void*>(buffer));
}

}  // namespace

void LookAhead::add_weights(std::span<const starpu_data_handle_t> weights) {
  const std::lock_guard lock(mutex_);
  weights_.insert(weights.begin(), weights.end());
}

void LookAhead::forget() {
  const std::lock_guard lock(mutex_);
  weights_.clear();
  order_ = {};
}

bool LookAhead::record(starpu_task* task, Index step) {
  if (step != step_) {
    order_.end_step();
    kept_at_ = units::Bytes(0);
    step_ = step;
  }
  bool reads = false;
  for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(task); ++i) {
    starpu_data_handle_t buffer = STARPU_TASK_GET_HANDLE(task, i);
    if (!weights_.contains(buffer)) continue;
    order_.read(buffer, units::Bytes(static_cast<double>(starpu_data_get_size(buffer))));
    reads = true;
  }
  return reads;
}

void LookAhead::ready(starpu_task* task, Index step) {
  const units::Bytes total(static_cast<double>(starpu_memory_get_total(memory_)));
  std::vector<const void*> kept;
  std::vector<const void*> next;
  {
    const std::lock_guard lock(mutex_);
    if (!record(task, step)) return;
    if (order_.read_bytes() - kept_at_ >= total * tuning_.keep_again) {
      kept_at_ = order_.read_bytes();
      kept = order_.next(total);
    }
    next = order_.next(total * tuning_.look_ahead);
  }
  const auto prefetch = [&](const void* buffer) {
    starpu_data_prefetch_on_node_prio(handle_of(buffer), memory_, /*async=*/1, task->priority);
  };
  const auto query = [&](const void* buffer, int* is_valid, int* is_requested) {
    starpu_data_query_status(handle_of(buffer), static_cast<int>(memory_), nullptr, is_valid,
                             is_requested);
  };
  // To ask for what is there makes it the last that was used: what is read first comes last.
  std::ranges::reverse(kept);
  for (const void* buffer : kept) {
    int is_valid = 0;
    query(buffer, &is_valid, nullptr);
    if (is_valid != 0) prefetch(buffer);
  }
  for (const void* buffer : next) {
    int is_valid = 0;
    int is_requested = 0;
    query(buffer, &is_valid, &is_requested);
    if (is_valid == 0 && is_requested == 0) prefetch(buffer);
  }
}

}  // namespace dos::sched_starpu

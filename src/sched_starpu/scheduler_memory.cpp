// SPDX-License-Identifier: Apache-2.0
// What updates have of GPUs' memory: what is held from them, and what comes home.
#include <algorithm>

#include "sched_starpu/runtime_version.hpp"
#include "sched_starpu/scheduler.hpp"

namespace dos::sched_starpu {

void Scheduler::hold_memory(const UpdateTask& update, starpu_task* task, const Place& place) {
  std::vector<UpdateRoom> rooms;
  Index step = 0;
  {
    const std::lock_guard lock(mutex_);
    step = board_->subgroups().step();
    if (held_step_ < step) rooms = board_->rooms();
  }
  // What is made again comes while others still wait for the memory that they were given.
  if (held_step_ < step && held_step_.exchange(step) < step) held_.begin_step(rooms);
  if (!held_.holds()) return;
  for (Index gpu = 0; gpu < std::ssize(gpu_memories_); ++gpu) {
    const UpdateMemory memory = memory_for(task, settings_, node(gpu + 1).id);
    // What stays is to have its memory, also where it was at home and has lost it to others.
    if (place.stays_on() == gpu)
      held_.give(gpu, memory.missing + memory.missing_of_model);
    else
      held_.found(gpu, memory.allocated);
    if (place.device.gpu != gpu || place.is_resident) continue;
    // Beside its states, for which there is room: some buffers may be larger than what is in them.
    const units::Bytes counted = params_of(update.allocated()) * update.cost.held();
    const units::Bytes buffers = memory.allocated + memory.missing;
    held_.give(gpu, memory.missing_of_model + std::max(units::Bytes(0), buffers - counted));
  }
}

void Scheduler::forget_buffers(Index group) {
  Node& here = node(group);
  dispatch_.returned(group, here.returns.forget());
  if (here.look_ahead) here.look_ahead->forget();
}

void Scheduler::give_memory(Index group, starpu_task* update) {
  if (!held_.holds() || group == 0) return;
  const UpdateMemory memory = memory_for(update, settings_, node(group).id);
  held_.give(node(group).device.gpu, memory.missing + memory.missing_of_model);
}

void Scheduler::give_up_stalled_memory() {
  if (held_.holds() && now_seconds() - last_moved_ > settings_.tuning.patience) held_.release();
}

void Scheduler::count_returns(Index group, double now) {
  // Where no update waits nobody needs to know, and the program may have unregistered its states.
  if (std::ranges::none_of(dispatch_.groups(), &Group::has_updates)) return;
  dispatch_.returned(group, node(group).returns.take_arrived(now));
}

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
// What the scheduler learns from tasks that begin and end.
#include "sched_starpu/runtime_version.hpp"
#include "sched_starpu/scheduler.hpp"

namespace dos::sched_starpu {
namespace {

/// Null for a task that StarPU runs without the scheduler.
TaskNote* note_of(const starpu_task* task) {
  return static_cast<TaskNote*>(task->sched_data);
}

}  // namespace

void Scheduler::before_execution(starpu_task* task) {
  const double now_us = starpu_timing_now();
  last_moved_ = now_us * kMicro;
  const auto worker = static_cast<unsigned>(starpu_worker_get_id_check());
  TaskNote* note = note_of(task);
  double last_end = 0;
  {
    const std::lock_guard lock(mutex_);
    clocks_[worker].started(now_us);
    last_end = clocks_[worker].last_end_us() * kMicro;
    const WorkerPlace& place = place_of_worker_[worker];
    if (note == nullptr) dispatch_.begins_other(place.group, place.worker, now_us * kMicro);
  }
  if (note == nullptr) return;
  // A kernel that waited in the GPU's stream began with the end of the one before: StarPU says so
  // once it has done with what follows that end.
  const bool was_queued = note->had_inputs && last_end > note->taken;
  note->start = was_queued ? last_end : now_us * kMicro;
  if (note->in_window) admit(note->group);
}

void Scheduler::after_execution(starpu_task* task) {
  const double now_us = starpu_timing_now();
  last_moved_ = now_us * kMicro;
  const auto worker = static_cast<unsigned>(starpu_worker_get_id_check());
  TaskNote* note = note_of(task);
  bool plans_ahead = false;
  if (note == nullptr) {
    std::unique_lock lock(mutex_);
    const units::Seconds before = clocks_[worker].times().running;
    clocks_[worker].ended(now_us);
    const WorkerPlace& place = place_of_worker_[worker];
    dispatch_.ended_other(place.group, place.worker, now_us * kMicro);
    const Device device = node(place.group).device;
    if (board_ && !device.is_cpu()) {
      board_->saw_other(device, clocks_[worker].times().running - before);
      for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(task); ++i)
        if ((STARPU_TASK_GET_MODE(task, i) & STARPU_RW) == STARPU_R)
          board_->forward_watch().read(STARPU_TASK_GET_HANDLE(task, i));
      plans_ahead = board_->may_plan_ahead() && !may_plan_ahead_.exchange(true);
    }
    lock.unlock();
    if (plans_ahead) wake(0);
    return;
  }
  const double now = now_us * kMicro;
  const Index group = note->group;
  const Device device = node(group).device;
  std::vector<starpu_data_handle_t> to_home;
  if (!device.is_cpu())
    to_home = start_home(task, settings_, note->is_resident);
  else
    for (std::size_t gpu = 1; gpu < nodes_.size(); ++gpu)
      start_return(task, settings_, nodes_[gpu].id);
  bool help = false;
  bool all_ran = false;
  {
    const std::lock_guard lock(mutex_);
    clocks_[worker].ended(now_us);
    // A GPU's worker starts a task while the one before still runs.
    const double last_end = dispatch_.groups()[static_cast<std::size_t>(group)].last_update_end;
    const double start = device.is_cpu() ? note->start : std::max(note->start, last_end);
    board_->set_time(units::Seconds(now));
    board_->executed(note->subgroup, device, units::Seconds(now - start), note->moved,
                     note->is_redone);
    if (device.is_cpu()) board_->waited(units::Seconds(note->start - note->taken));
    if (dispatch_.ended(*note, std::ssize(to_home), now))
      node(group).returns.add(to_home, now,
                              board_->rates().write_back_time(note->params, device).value(),
                              settings_.tuning.late);
    // Workers that spin look by themselves, one of them every so often (may_skip_look()).
    help = !kWorkersSpin && dispatch_.can_be_helped(group);
    all_ran = board_->subgroups().all_ran();
    plans_ahead = board_->may_plan_ahead() && !may_plan_ahead_.exchange(true);
    task->sched_data = nullptr;
    delete note;
  }
  if (all_ran) held_.release();
  if (plans_ahead) wake(0);
  if (!device.is_cpu()) admit(group);
  for (Index other = 0; help && other < std::ssize(nodes_); ++other)
    if (other != group) wake(other);
}

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/scheduler.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "sched_starpu/runtime_version.hpp"

namespace dos::sched_starpu {
namespace {

constexpr double kMicro = 1e-6;
constexpr double kMega = 1e6;  // StarPU's bandwidths are in MB/s
constexpr double kReserve = 0.03;
/// Residents move nothing but a gradient: enough of them to hide that.
constexpr Index kResidentsAtOnce = 16;
/// Updates a CPU worker that run or fetch their gradients: copies of states may be before those.
constexpr Index kRoundsAhead = 3;
constexpr units::Bytes kUnlimited{1e15};  // where StarPU knows no limit

/// Null for a task that StarPU runs without the scheduler.
TaskNote* note_of(const starpu_task* task) {
  return static_cast<TaskNote*>(task->sched_data);
}

/// Whether only some workers of a kind may run it.
bool is_restricted(const starpu_task* task) {
  return task->workerids != nullptr || (task->cl != nullptr && task->cl->can_execute != nullptr);
}

bool may_run(unsigned worker, starpu_task* task) {
  return starpu_worker_can_execute_task_first_impl(worker, task, nullptr) != 0;
}

double bytes_of(starpu_data_handle_t handle) {
  return static_cast<double>(starpu_data_get_size(handle));
}

/// What states may use of a GPU: what is free before the first of them arrives, less a reserve. At
/// the very limit StarPU evicts what it needs next.
units::Bytes free_memory(unsigned node) {
  const auto total = static_cast<double>(starpu_memory_get_total(node));
  const auto free = static_cast<double>(starpu_memory_get_available(node));
  return total < 0 ? kUnlimited : units::Bytes(std::max(0.0, free - kReserve * total));
}

/// Buffer 0 holds the FP32 parameters; what a task reads and writes are states, what it only writes
/// are working parameters, what it only reads is the gradient.
UpdateTask describe(starpu_task* task) {
  double states = 0;
  double written = 0;
  double read = 0;
  Index state_buffers = 0;
  for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(task); ++i) {
    const double bytes = bytes_of(STARPU_TASK_GET_HANDLE(task, i));
    const int mode = STARPU_TASK_GET_MODE(task, i) & STARPU_RW;
    if (mode == 0) continue;  // work space
    (mode == STARPU_RW ? states : mode == STARPU_W ? written : read) += bytes;
    if (mode == STARPU_RW) ++state_buffers;
  }
  starpu_data_handle_t parameters = STARPU_TASK_GET_HANDLE(task, 0);
  const double params = bytes_of(parameters) / sizeof(float);
  UpdateTask update{.subgroup = parameters,
                    .params = static_cast<Index>(params),
                    .priority = task->priority,
                    .cost = {}};
  // Without working parameters of its own the model lives in host memory, with its gradients.
  const bool on_host = written == 0;
  update.cost.state = units::BytesPerParam(states / params);
  update.cost.state_buffers = state_buffers;
  update.cost.weight = units::BytesPerParam(written / params);
  update.cost.gradient = units::BytesPerParam(on_host ? 0 : read / params);
  update.cost.host_gradient = units::BytesPerParam(on_host ? read / params : 0);
  update.cost.host_parameter = units::BytesPerParam(on_host ? sizeof(float) : 0);
  update.cost.cpu_traffic = units::BytesPerParam((2 * states + written + read) / params);
  return update;
}

}  // namespace

Scheduler::Scheduler(unsigned context, const sched::Policy& policy, Settings settings)
    : context_(context), policy_(policy), settings_(std::move(settings)) {
  starpu_sched_ctx_set_min_priority(context, std::numeric_limits<int>::min());
  starpu_sched_ctx_set_max_priority(context, std::numeric_limits<int>::max());
  // Its elements are referred to without the lock.
  groups_.reserve(STARPU_MAXNODES);
  groups_.push_back({.node = STARPU_MAIN_RAM, .device = {}});
}

void Scheduler::add_workers(std::span<const int> workers) {
  const std::lock_guard lock(mutex_);
  for (const int worker : workers) {
    const auto id = static_cast<unsigned>(worker);
    Index place = 0;
    if (starpu_worker_get_type(worker) != STARPU_CPU_WORKER) {
      const unsigned node = starpu_worker_get_memory_node(id);
      for (place = 1; place < std::ssize(groups_) && group(place).node != node; ++place) {
      }
      if (place == std::ssize(groups_))
        groups_.push_back({.node = node, .device = {.gpu = place - 1}});
    }
    group(place).workers.push_back(worker);
    group_of_worker_[id] = place;
    clocks_[id] = WorkerClock(/*overlaps=*/place != 0);
    starpu_sched_ctx_worker_shares_tasks_lists(worker, static_cast<int>(context_));
  }
}

bool Scheduler::is_update(starpu_task* task) const {
  const starpu_perfmodel* model = task->cl == nullptr ? nullptr : task->cl->model;
  return model != nullptr && model->symbol != nullptr && STARPU_TASK_GET_NBUFFERS(task) > 0 &&
         bytes_of(STARPU_TASK_GET_HANDLE(task, 0)) >= sizeof(float) &&
         std::strncmp(model->symbol, settings_.update_prefix.c_str(),
                      settings_.update_prefix.size()) == 0;
}

Surroundings Scheduler::surroundings() const {
  Surroundings result;
  result.cpu_workers = std::max<Index>(1, std::ssize(groups_.front().workers));
  for (std::size_t g = 1; g < groups_.size(); ++g) {
    const unsigned node = groups_[g].node;
    const double in = starpu_transfer_bandwidth(STARPU_MAIN_RAM, node) * kMega;
    const double out = starpu_transfer_bandwidth(node, STARPU_MAIN_RAM) * kMega;
    const units::Bytes memory = free_memory(node);
    result.gpus.push_back({.h2d = units::BytesPerSecond(in),
                           .d2h = units::BytesPerSecond(out),
                           .memory = {.update = memory, .resident = memory}});
    result.transfer_latency = units::Seconds(std::max(
        result.transfer_latency.value(), starpu_transfer_latency(STARPU_MAIN_RAM, node) * kMicro));
  }
  return result;
}

void Scheduler::push(starpu_task* task) {
  auto* note = new TaskNote{.task = task};
  task->sched_data = note;
  if (is_update(task))
    place_update(*note);
  else
    place_other(*note);
}

int Scheduler::runner_of(const Group& group, starpu_task* task, unsigned* implementation) {
  for (const int worker : group.workers)
    if (starpu_worker_can_execute_task_first_impl(static_cast<unsigned>(worker), task,
                                                  implementation) != 0)
      return worker;
  return -1;
}

Index Scheduler::group_of(const Device& device, starpu_task* task) const {
  const Index wanted = device.gpu + 1;
  if (runner_of(groups_[static_cast<std::size_t>(wanted)], task) >= 0) return wanted;
  for (Index other = 0; other < std::ssize(groups_); ++other)
    if (runner_of(groups_[static_cast<std::size_t>(other)], task) >= 0) return other;
  return wanted;
}

void Scheduler::place_update(TaskNote& note) {
  const UpdateTask update = describe(note.task);
  note.params = update.params;
  const bool restricted = is_restricted(note.task);
  Index place = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!board_)
      board_ = std::make_unique<UpdateBoard>(policy_.name, settings_.options, surroundings());
    note.subgroup = board_->arrive(update);
    place = note.group = group_of(board_->planned(note.subgroup), note.task);
    Group& home = group(place);
    note.seconds = board_->expected(note.params, home.device).value_or(units::Seconds(0)).value();
    home.queued_seconds += note.seconds;
    starpu_push_task_end(note.task);
    home.updates.add({note.task->priority, arrivals_++}, &note);
    ++waiting_;
  }
  // From here on the task may have run.
  if (groups_.size() > 1) admit(place);
  if (place == 0) wake(groups_.front(), restricted);
}

std::vector<double> Scheduler::queue_ends() const {
  const std::lock_guard lock(mutex_);
  std::vector<double> ends;
  for (const Group& each : groups_)
    ends.push_back(each.queued_seconds /
                   static_cast<double>(std::max<std::size_t>(1, each.workers.size())));
  return ends;
}

/// Earliest end over the groups, from history models, transfers and what waits there. A group whose
/// speed is not known yet comes first, so that it becomes known.
void Scheduler::choose_group(TaskNote& note) const {
  const std::vector<double> queue_end = queue_ends();
  double best_end = std::numeric_limits<double>::infinity();
  for (Index g = 0; g < std::ssize(groups_); ++g) {
    const Group& each = groups_[static_cast<std::size_t>(g)];
    unsigned implementation = 0;
    const int runner = runner_of(each, note.task, &implementation);
    if (runner < 0) continue;
    const auto worker = static_cast<unsigned>(runner);
    starpu_perfmodel_arch* arch = starpu_worker_get_perf_archtype(runner, context_);
    const double length = starpu_task_expected_length(note.task, arch, implementation) * kMicro;
    const double transfer = starpu_task_expected_data_transfer_time_for(note.task, worker) * kMicro;
    const double end = length > 0 ? queue_end[static_cast<std::size_t>(g)] + transfer + length : 0;
    if (end >= best_end) continue;
    best_end = end;
    note.group = g;
    note.seconds = length > 0 ? transfer + length : 0;
  }
}

void Scheduler::place_other(TaskNote& note) {
  if (groups_.size() > 1) choose_group(note);
  const bool restricted = is_restricted(note.task);
  Group& home = group(note.group);
  // What it reads is on its way while the task waits.
  if (note.group != 0) starpu_prefetch_task_input_on_node(note.task, home.node);
  {
    const std::lock_guard lock(mutex_);
    home.queued_seconds += note.seconds;
    starpu_push_task_end(note.task);
    home.ready.add({note.task->priority, arrivals_++}, &note);
    ++waiting_;
  }
  wake(home, restricted);
}

Index Scheduler::window_of(const Group& gpu) const {
  return kMostStreamed > 0 ? kMostStreamed : board_->window(gpu.device.gpu);
}

bool Scheduler::has_room(const Group& gpu, const TaskNote& note) const {
  if (gpu.device.is_cpu()) return gpu.in_window < kRoundsAhead * std::ssize(gpu.workers);
  const bool resident = board_->is_resident(note.subgroup);
  return resident ? gpu.residents < kResidentsAtOnce : gpu.in_window < window_of(gpu);
}

void Scheduler::occupy(Group& gpu, TaskNote& note, bool resident) {
  note.slot = resident ? Slot::kResident : Slot::kStreamed;
  ++(resident ? gpu.residents : gpu.in_window);
}

void Scheduler::release(Group& gpu, TaskNote& note) {
  if (note.slot == Slot::kResident) --gpu.residents;
  if (note.slot == Slot::kStreamed) --gpu.in_window;
}

void Scheduler::admit(Index index) {
  Group& gpu = group(index);
  for (;;) {
    ReadyTasks::Node node;
    bool restricted = false;
    {
      const std::lock_guard lock(mutex_);
      if (gpu.updates.empty() || !has_room(gpu, gpu.updates.first())) return;
      node = gpu.updates.take_first();
      TaskNote& note = *node.mapped();
      occupy(gpu, note, index != 0 && board_->is_resident(note.subgroup));
      restricted = is_restricted(note.task);
    }
    starpu_prefetch_task_input_on_node(node.mapped()->task, gpu.node);
    {
      const std::lock_guard lock(mutex_);
      gpu.ready.add(std::move(node));
    }
    wake(gpu, restricted);
  }
}

void Scheduler::wake(const Group& group, bool all) const {
  for (const int worker : group.workers)
    if (starpu_wake_worker_relax_light(worker) != 0 && !all) return;
}

TaskNote* Scheduler::take(Group& group, unsigned worker) {
  const auto can_run = [worker](starpu_task* task) { return may_run(worker, task); };
  const bool waits = group.device.is_cpu() && !group.updates.empty();
  const bool updates_first =
      waits && (group.ready.empty() || group.updates.first_key() < group.ready.first_key());
  TaskNote* note = updates_first ? group.updates.take_first_that(can_run) : nullptr;
  if (note == nullptr) note = group.ready.take_first_that(can_run);
  if (note == nullptr && waits) note = group.updates.take_first_that(can_run);
  return note;
}

/// Whether a worker of `idle` would end the last update that waits for `owner` before `owner` does.
/// States that stay on a GPU are never taken from it: they would come back the next step.
bool Scheduler::would_end_earlier(const Group& idle, const Group& owner) const {
  if (board_->is_resident(owner.updates.last().subgroup)) return false;
  const auto mine = board_->expected(owner.updates.last().params, idle.device);
  const auto theirs = board_->expected(owner.updates.last().params, owner.device);
  if (!mine || !theirs) return false;
  const auto waiting = static_cast<double>(owner.updates.size() + owner.in_window);
  const double rounds =
      std::ceil(waiting / static_cast<double>(owner.device.is_cpu() ? owner.workers.size() : 1));
  // States reach a GPU, and leave it, before and after.
  const double ways = idle.device.is_cpu() ? 1 : 3;
  return mine->value() * ways < theirs->value() * rounds;
}

TaskNote* Scheduler::take_elsewhere(Index index, unsigned worker) {
  Group& idle = group(index);
  if (!policy_.adapts || !board_ || !board_->all_arrived()) return nullptr;
  const bool has_room = idle.device.is_cpu() || idle.in_window < window_of(idle);
  for (Group& owner : groups_) {
    if (&owner == &idle || owner.updates.empty() || !has_room) continue;
    if (!may_run(worker, owner.updates.last().task) || !would_end_earlier(idle, owner)) continue;
    TaskNote* note = owner.updates.take_last().mapped();
    owner.queued_seconds -= note->seconds;
    note->group = index;
    note->seconds = board_->expected(note->params, idle.device).value_or(units::Seconds(0)).value();
    idle.queued_seconds += note->seconds;
    if (!idle.device.is_cpu()) occupy(idle, *note, /*resident=*/false);
    return note;
  }
  return nullptr;
}

starpu_task* Scheduler::pop() {
  if (waiting_ == 0) return nullptr;
  const auto worker = static_cast<unsigned>(starpu_worker_get_id_check());
  const Index index = group_of_worker_[worker];
  const std::lock_guard lock(mutex_);
  TaskNote* note = take(group(index), worker);
  if (note == nullptr) note = take_elsewhere(index, worker);
  const double now_us = starpu_timing_now();
  if (note == nullptr) {
    clocks_[worker].refused(now_us, index != 0 && !group(index).updates.empty());
    return nullptr;
  }
  clocks_[worker].took(now_us);
  --waiting_;
  starpu_task* task = note->task;
  unsigned implementation = 0;
  starpu_worker_can_execute_task_first_impl(worker, task, &implementation);
  starpu_task_set_implementation(task, implementation);
  if (note->subgroup < 0) forget(*note);
  return task;
}

void Scheduler::forget(TaskNote& note) {
  Group& here = group(note.group);
  here.queued_seconds = std::max(0.0, here.queued_seconds - note.seconds);
  release(here, note);
  note.task->sched_data = nullptr;
  delete &note;
}

void Scheduler::before_execution(starpu_task* task) {
  const double now_us = starpu_timing_now();
  const auto worker = static_cast<unsigned>(starpu_worker_get_id_check());
  {
    const std::lock_guard lock(mutex_);
    clocks_[worker].started(now_us);
  }
  TaskNote* note = note_of(task);
  if (note == nullptr) return;
  note->start_us = now_us;
  if (note->slot != Slot::kNone) admit(note->group);
}

void Scheduler::after_execution(starpu_task* task) {
  const double now_us = starpu_timing_now();
  const auto worker = static_cast<unsigned>(starpu_worker_get_id_check());
  TaskNote* note = note_of(task);
  if (note == nullptr) {
    const std::lock_guard lock(mutex_);
    clocks_[worker].ended(now_us);
    return;
  }
  const Index index = note->group;
  const bool on_gpu = !group(index).device.is_cpu();
  if (on_gpu && note->slot != Slot::kResident) write_back(*note);
  {
    const std::lock_guard lock(mutex_);
    clocks_[worker].ended(now_us);
    Group& here = group(index);
    // A GPU's worker starts a task while the one before still runs.
    const double start = on_gpu ? std::max(note->start_us, here.last_end_us) : note->start_us;
    board_->executed(note->subgroup, here.device, units::Seconds((now_us - start) * kMicro));
    here.last_end_us = now_us;
    forget(*note);
  }
  if (!on_gpu) return;
  admit(index);
  // It may be time for others to help.
  for (const Group& other : groups_)
    if (&other != &group(index)) wake(other);
}

void Scheduler::write_back(const TaskNote& note) const {
  for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(note.task); ++i)
    if ((STARPU_TASK_GET_MODE(note.task, i) & STARPU_RW) == STARPU_RW)
      start_write_back(STARPU_TASK_GET_HANDLE(note.task, i));
}

}  // namespace dos::sched_starpu

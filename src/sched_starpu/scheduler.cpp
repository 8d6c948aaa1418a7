// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/scheduler.hpp"

#include <limits>

#include "base/error.hpp"
#include "sched_starpu/runtime_version.hpp"
#include "sched_starpu/update_task.hpp"

namespace dos::sched_starpu {
namespace {

/// Of its bandwidths, in MB/s.
constexpr double kMega = 1e6;

/// Whether only some workers of a kind may run it.
bool is_restricted(const starpu_task* task) {
  return task->workerids != nullptr || (task->cl != nullptr && task->cl->can_execute != nullptr);
}

}  // namespace

Scheduler::Scheduler(unsigned context, const sched::Policy& policy, SchedulerSettings settings)
    : context_(context),
      policy_(policy),
      settings_(std::move(settings)),
      adapts_(policy.adapts && settings_.fallback),
      dispatch_(adapts_, kMostStreamed, settings_.tuning) {
  starpu_sched_ctx_set_min_priority(context, std::numeric_limits<int>::min());
  starpu_sched_ctx_set_max_priority(context, std::numeric_limits<int>::max());
  // Its elements are referred to without the lock.
  nodes_.reserve(STARPU_MAXNODES);
  nodes_.push_back({.id = kCpuMemory, .device = {}});
  dispatch_.add_group({});
}

void Scheduler::add_workers(std::span<const int> workers) {
  const std::lock_guard lock(mutex_);
  for (const int worker : workers) {
    const auto id = static_cast<unsigned>(worker);
    Index group = 0;
    if (starpu_worker_get_type(worker) != STARPU_CPU_WORKER) {
      const unsigned memory = starpu_worker_get_memory_node(id);
      for (group = 1; group < std::ssize(nodes_) && node(group).id != memory; ++group) {
      }
      if (group == std::ssize(nodes_)) {
        nodes_.push_back({.id = memory, .device = {.gpu = group - 1}});
        nodes_.back().look_ahead = std::make_unique<LookAhead>(memory, settings_.tuning);
        gpu_memories_.push_back(memory);
        held_.add_gpu(memory);
        dispatch_.add_group(nodes_.back().device);
      }
    }
    node(group).workers.push_back(worker);
    place_of_worker_[id] = {.group = group, .worker = dispatch_.add_worker(group)};
    clocks_[id] = WorkerClock(/*overlaps=*/group != 0);
    starpu_sched_ctx_worker_shares_tasks_lists(worker, static_cast<int>(context_));
  }
}

void Scheduler::expect_states_elsewhere() {
  const std::lock_guard lock(mutex_);
  require(board_ == nullptr, "no update before");
  settings_.options.residents = false;
  // Updates that wait for states, of which no plan knows, are no fault of it.
  settings_.tuning.trial_steps = 0;
}

Surroundings Scheduler::surroundings() {
  Surroundings result;
  result.measured_link = settings_.measured_link;
  const unsigned cpu = nodes_.front().id;
  result.cpu_workers = std::max<Index>(1, std::ssize(nodes_.front().workers));
  for (std::size_t g = 1; g < nodes_.size(); ++g) {
    const unsigned id = nodes_[g].id;
    const double in = starpu_transfer_bandwidth(cpu, id) * kMega;
    const double out = starpu_transfer_bandwidth(id, cpu) * kMega;
    result.gpus.push_back(
        {.h2d = units::BytesPerSecond(in),
         .d2h = units::BytesPerSecond(out),
         .memory = memory_for_states(static_cast<Index>(g) - 1, gpu_memories_, {}, settings_)});
    result.transfer_latency = units::Seconds(
        std::max(result.transfer_latency.value(), starpu_transfer_latency(cpu, id) * kMicro));
  }
  result.read_memory = [this](Index gpu) {
    return memory_for_states(gpu, gpu_memories_, buffers_, settings_);
  };
  return result;
}

void Scheduler::push(starpu_task* task) {
  auto* note = new TaskNote{.task = task};
  task->sched_data = note;
  if (is_update(task, settings_))
    place_update(*note);
  else
    place_other(*note);
}

PlacedUpdate Scheduler::ask_board(const UpdateTask& update, starpu_task* task) {
  const std::vector<double> times = model_times(task);
  std::unique_lock lock(mutex_);
  if (!board_)
    board_ = std::make_unique<UpdateBoard>(policy_.name, settings_.options, surroundings(),
                                           settings_.tuning);
  for (std::size_t i = 0; i < times.size(); ++i)
    board_->suggest(update.params, nodes_[i].device, units::Seconds(times[i]));
  lacks_rates_ = !board_->rates().are_known();
  const Index known = board_->subgroups().size();
  const units::Seconds start(now_seconds());
  const Index waited_for = board_->plans_made().waited_for;
  board_->set_time(start);
  const PlacedUpdate placed = board_->place(update, lock);
  if (board_->plans_made().waited_for > waited_for)
    board_->waited_for_plan(units::Seconds(now_seconds()) - start);
  // The program has others, so that those before may be gone.
  for (Index g = 0; board_->subgroups().size() > known && g < std::ssize(nodes_); ++g)
    forget_buffers(g);
  if (board_->learns_memory())
    add_buffers(task, settings_, buffers_);
  else
    buffers_ = {};
  step_of_short_memory_ = board_->plans().is_memory_short() ? board_->subgroups().step() : 0;
  return placed;
}

void Scheduler::add_weights(starpu_task* update, Index subgroup) {
  if (nodes_.size() == 1) return;
  UpdateBuffers buffers;
  add_buffers(update, settings_, buffers);
  {
    const std::lock_guard lock(mutex_);
    for (const starpu_data_handle_t weights : buffers.of_model)
      board_->forward_watch().writes(subgroup, weights);
  }
  if (step_of_short_memory_ == 0) return;
  for (Node& each : nodes_)
    if (each.look_ahead) each.look_ahead->add_weights(buffers.of_model);
}

void Scheduler::place_update(TaskNote& note) {
  UpdateTask update = describe_update(note.task, settings_);
  // With one GPU there is nothing to choose.
  if (gpu_memories_.size() > 1) update.user = user_of(update, gpu_memories_);
  update.kept_on = keeper_of(note.task);
  note.params = update.params;
  note.is_redone = update.is_redone;
  const bool restricted = is_restricted(note.task);
  const auto [subgroup, place, by_plan] = ask_board(update, note.task);
  note.subgroup = subgroup;
  add_weights(note.task, subgroup);
  if (kReusesMemory) hold_memory(update, note.task, place);
  note.group = group_of(place.device, note.task);
  const Index planned = note.group;
  if (adapts_ && !by_plan && (place.is_resident || !goes_to_cpu(note))) choose_group(note, planned);
  const Index group = note.group;
  if (group != planned) {
    note.moved = MoveReason::kSooner;
    give_memory(group, note.task);
  }
  {
    const std::lock_guard lock(mutex_);
    const Device& device = node(group).device;
    note.is_resident = place.is_resident && device == place.device;
    note.travels = !device.is_cpu() && (!note.is_resident || place.arrives);
    note.seconds = board_->rates()
                       .expected(note.params, device, note.stay())
                       .value_or(units::Seconds(0))
                       .value();
    if (settings_.observer != nullptr)
      settings_.observer(note.task, note.params, static_cast<int>(node(group).id),
                         note.is_resident);
    starpu_push_task_end(note.task);
    dispatch_.push_update({note.task->priority, arrivals_++}, note, *board_, now_seconds());
    if (group == 0) cpu_has_tasks_ = true;
    ++waiting_;
  }
  // From here on the task may have run, and the note be gone.
  admit(group);
  if (group == 0) wake(0, restricted);
}

/// A task that reads a gradient is ready: backward has written it.
bool Scheduler::flush_gradients(starpu_task* task) {
  bool reads_one = false;
  for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(task); ++i) {
    if ((STARPU_TASK_GET_MODE(task, i) & STARPU_RW) != STARPU_R) continue;
    starpu_data_handle_t buffer = STARPU_TASK_GET_HANDLE(task, i);
    std::optional<Index> subgroup;
    {
      const std::lock_guard lock(mutex_);
      if (!board_) return false;
      reads_one |= board_->subgroups().with_gradient(buffer).has_value();
      subgroup = board_->updated_on_cpu(buffer);
    }
    if (!subgroup) continue;
    const units::Bytes bytes = start_flush(buffer, nodes_.front().id);
    const std::lock_guard lock(mutex_);
    board_->flushed(*subgroup, bytes);
  }
  return reads_one;
}

void Scheduler::place_other(TaskNote& note) {
  bool reads_gradient = false;
  if (nodes_.size() > 1) {
    reads_gradient = flush_gradients(note.task);
    choose_group(note);
  }
  // What it and those behind it need is not counted.
  if (note.group > 0) held_.release();
  const bool restricted = is_restricted(note.task);
  const Index group = note.group;
  // What it reads is on its way while the task waits.
  if (nodes_.size() > 1) start_inputs(note.task, node(group).id);
  int priority = note.task->priority;
  if (const Index step = step_of_short_memory_; step > 0 && group > 0) {
    node(group).look_ahead->ready(note.task, step);
    // Before the memory of the gradient goes to those of backward's next tasks: it had to come
    // back.
    if (reads_gradient) priority = std::numeric_limits<int>::max();
  }
  {
    const std::lock_guard lock(mutex_);
    starpu_push_task_end(note.task);
    dispatch_.push({priority, arrivals_++}, note);
    if (group == 0) cpu_has_tasks_ = true;
    ++waiting_;
  }
  wake(group, restricted);
}

void Scheduler::admit(Index group) {
  for (;;) {
    ReadyTasks::Node next;
    bool restricted = false;
    bool moved = false;
    {
      const std::lock_guard lock(mutex_);
      const double now = now_seconds();
      count_returns(group, now);
      next = dispatch_.admit(group, *board_, now,
                             [&](starpu_task* task) { return runner_of(node(group), task) >= 0; });
      if (!next) return;
      restricted = is_restricted(next.mapped()->task);
      moved = next.mapped()->moved.has_value();
    }
    starpu_task* task = next.mapped()->task;
    if (moved) give_memory(group, task);
    // First what updates share, such as the clip factor, of which any number may wait for one copy.
    start_fetch(task, node(group).id);
    if (!node(group).device.is_cpu()) starpu_prefetch_task_input_on_node(task, node(group).id);
    {
      const std::lock_guard lock(mutex_);
      dispatch_.admitted(std::move(next));
      if (group == 0) cpu_has_tasks_ = true;
    }
    wake(group, restricted);
  }
}

void Scheduler::wake(Index group, bool all) {
  for (const int worker : node(group).workers) {
    if (!idle_[static_cast<std::size_t>(worker)].is.exchange(false)) continue;
    if (!kWorkersSpin) starpu_wake_worker_relax_light(worker);
    if (!all) return;
  }
}

starpu_task* Scheduler::pop() {
  const auto id = static_cast<int>(starpu_worker_get_id_check());
  const auto worker = static_cast<unsigned>(id);
  // Before it looks: who pushes first counts its task, then looks for an idle worker.
  std::atomic<bool>& is_idle = idle_[worker].is;
  const bool was_idle = is_idle;
  if (!was_idle) is_idle = true;
  give_up_stalled_memory();
  const WorkerPlace& here = place_of_worker_[worker];
  if (waiting_ == 0 && here.group == 0 && may_plan_ahead_) plan_ahead(worker);
  if (waiting_ == 0) return nullptr;
  if (kWorkersSpin && was_idle && here.group == 0 && may_skip_look()) return nullptr;
  std::unique_lock lock(mutex_);
  const double now = now_seconds();
  count_returns(here.group, now);
  const auto can_run = [id](starpu_task* task) { return may_run(id, task); };
  const auto inputs = [this, memory = node(here.group).id](starpu_task* task) {
    if (!kWorkersAskAgain && board_->subgroups().all_arrived()) return Inputs::kHere;
    return inputs_of(task, memory);
  };
  TaskNote* note = dispatch_.take(here.group, here.worker, board_.get(), now, can_run, inputs);
  if (here.group == 0) cpu_has_tasks_ = dispatch_.groups().front().has_tasks();
  if (note == nullptr) {
    const Group& group = dispatch_.groups()[static_cast<std::size_t>(here.group)];
    clocks_[worker].refused(now / kMicro, here.group != 0 && group.has_updates());
    return nullptr;
  }
  is_idle = false;
  clocks_[worker].took(now / kMicro);
  --waiting_;
  starpu_task* task = note->task;
  unsigned implementation = 0;
  may_run(id, task, &implementation);
  starpu_task_set_implementation(task, implementation);
  const bool moved = note->moved.has_value();
  const bool is_update = note->subgroup >= 0;
  if (!is_update) {
    task->sched_data = nullptr;
    delete note;
  }
  lock.unlock();
  if (is_update && here.group != 0)
    note->had_inputs = inputs_of(task, node(here.group).id) == Inputs::kHere;
  if (moved) give_memory(here.group, task);
  return task;
}

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
// Which workers a task goes to, where no plan says it.
#include <limits>

#include "sched_starpu/runtime_version.hpp"
#include "sched_starpu/scheduler.hpp"

namespace dos::sched_starpu {
namespace {

bool has_model(const starpu_task* task) {
  return task->cl != nullptr && task->cl->model != nullptr &&
         task->cl->model->type != STARPU_PERFMODEL_INVALID;
}

}  // namespace

bool Scheduler::may_run(int worker, starpu_task* task, unsigned* implementation) {
  return starpu_worker_can_execute_task_first_impl(static_cast<unsigned>(worker), task,
                                                   implementation) != 0;
}

int Scheduler::runner_of(const Node& node, starpu_task* task, unsigned* implementation) {
  for (const int worker : node.workers)
    if (may_run(worker, task, implementation)) return worker;
  return -1;
}

Index Scheduler::group_of(const Device& device, starpu_task* task) const {
  const Index wanted = device.gpu + 1;
  if (runner_of(nodes_[static_cast<std::size_t>(wanted)], task) >= 0) return wanted;
  for (Index other = 0; other < std::ssize(nodes_); ++other)
    if (runner_of(nodes_[static_cast<std::size_t>(other)], task) >= 0) return other;
  return wanted;
}

Index Scheduler::keeper_of(starpu_task* task) const {
  if (task->workerids == nullptr || runner_of(nodes_.front(), task) >= 0) return -1;
  Index keeper = -1;
  for (const Node& each : nodes_) {
    if (runner_of(each, task) < 0) continue;
    if (keeper >= 0) return -1;
    keeper = each.device.gpu;
  }
  return keeper;
}

/// By the task's performance model; 0 when it is not calibrated for the size, or not there.
double Scheduler::expected_seconds(starpu_task* task, int worker, unsigned implementation) const {
  starpu_perfmodel_arch* arch = starpu_worker_get_perf_archtype(worker, context_);
  const double microseconds = starpu_task_expected_length(task, arch, implementation);
  return microseconds > 0 ? microseconds * kMicro : 0;
}

std::vector<double> Scheduler::model_times(starpu_task* task) const {
  std::vector<double> times;
  if (!lacks_rates_ || nodes_.size() < 2) return times;
  for (const Node& each : nodes_) {
    unsigned implementation = 0;
    const int runner = runner_of(each, task, &implementation);
    times.push_back(runner < 0 ? 0 : expected_seconds(task, runner, implementation));
  }
  return times;
}

/// Whether an update beside backward is the CPU's without a comparison.
bool Scheduler::goes_to_cpu(TaskNote& note) const {
  unsigned implementation = 0;
  const int runner = runner_of(nodes_.front(), note.task, &implementation);
  const double length = runner < 0 ? 0 : expected_seconds(note.task, runner, implementation);
  if (!(length > 0)) return false;
  const double now = now_seconds();
  const std::lock_guard lock(mutex_);
  if (!dispatch_.is_hidden_on_cpu(length, *board_, now)) return false;
  note.group = 0;
  note.seconds = length;
  return true;
}

/// Earliest end over the groups, from history models, transfers and what waits there. A group whose
/// speed is not known yet comes first, so that it becomes known; of a task without a model only
/// what waits and transfers are known. Among GPUs an update keeps to its plan, which divides them
/// evenly: forward finds the parameters there, and puts its work where they are.
void Scheduler::choose_group(TaskNote& note, Index planned) const {
  std::vector<double> start;
  {
    const double now = now_seconds();
    const std::lock_guard lock(mutex_);
    for (Index g = 0; g < std::ssize(nodes_); ++g) start.push_back(dispatch_.start_of(g, now));
  }
  double best_end = std::numeric_limits<double>::infinity();
  for (Index g = 0; g < std::ssize(nodes_); ++g) {
    if (planned > 0 && g > 0 && g != planned) continue;
    unsigned implementation = 0;
    const int runner = runner_of(nodes_[static_cast<std::size_t>(g)], note.task, &implementation);
    if (runner < 0) continue;
    const auto worker = static_cast<unsigned>(runner);
    const double length = expected_seconds(note.task, runner, implementation);
    const double transfer = starpu_task_expected_data_transfer_time_for(note.task, worker) * kMicro;
    const double begin = start[static_cast<std::size_t>(g)];
    const double end = length > 0 || !has_model(note.task) ? begin + transfer + length : 0;
    if (end >= best_end) continue;
    best_end = end;
    note.group = g;
    // While others run its data come.
    note.seconds = length > 0 ? std::max(0.0, transfer - begin) + length : 0;
  }
}

bool Scheduler::may_skip_look() {
  if (cpu_has_tasks_) return false;
  const double now = now_seconds();
  double next = next_look_;
  return now < next || !next_look_.compare_exchange_strong(next, now + Tuning::between_looks);
}

void Scheduler::plan_ahead(std::size_t worker) {
  if (!may_plan_ahead_.exchange(false)) return;
  // It looks for tasks itself afterwards, and nobody need wait for it meanwhile.
  idle_[worker].is = false;
  starpu_worker_relax_on();
  {
    std::unique_lock lock(mutex_);
    if (board_->may_plan_ahead()) board_->plan_ahead(lock);
  }
  starpu_worker_relax_off();
  idle_[worker].is = true;
}

}  // namespace dos::sched_starpu

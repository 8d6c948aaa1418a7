// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/simulated_step.hpp"

#include <algorithm>
#include <utility>

#include "sched/policy_registry.hpp"

namespace dos::sched_starpu {
namespace {

Surroundings surroundings_of(const SimulatedNode& node) {
  Surroundings result{.cpu_workers = node.cpu_workers, .gpus = {}, .transfer_latency = {}};
  const units::Bytes states = units::Params(SimulatedProgram::kParams) * sched::UpdateCost{}.state;
  const units::BytesPerSecond link = states / units::Seconds(node.copy);
  const units::Bytes memory(node.memory);
  result.gpus.assign(static_cast<std::size_t>(node.gpus),
                     {.h2d = link, .d2h = link, .memory = {.update = memory, .resident = memory}});
  return result;
}

/// StarPU's workers do not sleep, unless it was built so: they ask again.
constexpr double kPollSeconds = 1e-3;

std::size_t place(Index index) {
  return static_cast<std::size_t>(index);
}

bool yes(const starpu_task* /*task*/) {
  return true;
}

}  // namespace

SimulatedProgram::SimulatedProgram(const std::string& policy, const sched::PolicyOptions& options,
                                   const SimulatedNode& node, Index subgroups)
    : node_(node),
      board_(policy, options, surroundings_of(node)),
      dispatch_(sched::find_policy(policy).adapts, /*most_streamed=*/0),
      links_(place(node.gpus)) {
  for (Index i = 0; i < subgroups; ++i) notes_.push_back(std::make_unique<TaskNote>());
  has_states_.resize(place(subgroups));
  for (Index group = 0; group <= node.gpus; ++group) {
    dispatch_.add_group({.gpu = group - 1});
    busy_.emplace_back(place(group == 0 ? node.cpu_workers : 1), false);
    for (std::size_t i = 0; i < busy_.back().size(); ++i) dispatch_.add_worker(group);
    asks_again_.push_back(false);
  }
}

SimulatedStep SimulatedProgram::step(const Disturbance& disturbance) {
  disturbance_ = disturbance;
  begin_ = now_;
  result_ = {};
  has_states_.assign(has_states_.size(), false);
  for (Index i = 0; i < std::ssize(notes_); ++i) arrive(i);
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    event.action();
  }
  result_.end = now_ - begin_;
  return result_;
}

void SimulatedProgram::at(double time, std::function<void()> action) {
  events_.push({time, scheduled_++, std::move(action)});
}

void SimulatedProgram::arrive(Index subgroup) {
  TaskNote& note = *notes_[place(subgroup)];
  note = {.params = kParams};
  const auto priority = static_cast<int>(std::ssize(notes_) - subgroup);
  const auto [index, where, by_plan] = board_.place(
      {.subgroup = &note, .params = kParams, .priority = priority, .cost = {}}, NoLock());
  note.subgroup = index;
  note.group = where.device.gpu + 1;
  note.is_resident = where.is_resident;
  note.travels = note.group > 0 && (!where.is_resident || where.arrives);
  has_states_[place(note.subgroup)] = !note.travels;
  note.seconds = board_.rates()
                     .expected(note.params, where.device, note.stay())
                     .value_or(units::Seconds(0))
                     .value();
  dispatch_.push_update({priority, static_cast<std::uint64_t>(subgroup)}, note, board_, now_);
  // The CPU's gradients are there: they take no time of a link.
  admit(note.group);
  if (note.group == 0) wake(0);
}

void SimulatedProgram::admit(Index group) {
  for (;;) {
    auto next = std::make_shared<ReadyTasks::Node>(dispatch_.admit(group, board_, now_, yes));
    if (next->empty()) return;
    observe();
    const TaskNote& note = *next->mapped();
    has_states_[place(note.subgroup)] = true;
    double there = now_;
    if (note.travels) {
      Link& link = links_[place(group - 1)];
      there = link.in_free = std::max(link.in_free, now_) + node_.copy;
    }
    at(there, [this, group, next] {
      dispatch_.admitted(std::move(*next));
      wake(group);
    });
  }
}

void SimulatedProgram::wake(Index group) {
  std::vector<bool>& busy = busy_[place(group)];
  for (Index worker = 0; worker < std::ssize(busy); ++worker) {
    if (busy[place(worker)]) continue;
    TaskNote* note = dispatch_.take(group, worker, &board_, now_, yes);
    if (note == nullptr) return ask_again(group);
    busy[place(worker)] = true;
    run(*note, worker);
  }
}

void SimulatedProgram::ask_again(Index group) {
  bool can_help = false;
  for (Index other = 0; other < std::ssize(busy_); ++other)
    can_help |= other != group && dispatch_.can_be_helped(other);
  if (!can_help || asks_again_[place(group)]) return;
  asks_again_[place(group)] = true;
  at(now_ + kPollSeconds, [this, group] {
    asks_again_[place(group)] = false;
    wake(group);
  });
}

void SimulatedProgram::run(TaskNote& note, Index worker) {
  observe();
  const Device device{.gpu = note.group - 1};
  double start = now_;
  if (!device.is_cpu() && !has_states_[place(note.subgroup)]) {
    Link& link = links_[place(device.gpu)];
    start = link.in_free = std::max(link.in_free, now_) + node_.copy;
  }
  at(start, [this, &note, device, worker] {
    if (note.in_window) admit(note.group);
    double seconds = device.is_cpu() ? node_.cpu_update : node_.kernel;
    if (disturbance_) seconds = disturbance_(device, worker, now_ - begin_, seconds);
    at(now_ + seconds, [this, &note, started = now_] { end(note, started); });
  });
}

void SimulatedProgram::end(TaskNote& note, double started) {
  const Index group = note.group;
  const Device device{.gpu = group - 1};
  ++result_.updates;
  board_.executed(note.subgroup, device, units::Seconds(now_ - started), note.moved);
  if (note.in_window && !device.is_cpu() && !note.is_resident) {
    Link& link = links_[place(device.gpu)];
    link.out_free = std::max(link.out_free, now_) + node_.copy;
    at(link.out_free, [this, group] {
      dispatch_.returned(group, 1);
      wake(group);
      admit(group);
    });
  }
  dispatch_.ended(note, 1, now_);
  busy_[place(group)][place(note.worker)] = false;
  observe();
  wake(group);
  if (!device.is_cpu()) admit(group);
  if (dispatch_.can_be_helped(group))
    for (Index other = 0; other < std::ssize(busy_); ++other) wake(other);
}

void SimulatedProgram::observe() {
  for (const Group& group : dispatch_.groups()) {
    const GpuWindow& window = group.window;
    const Index streamed = window.streamed();
    result_.most_streamed = std::max(result_.most_streamed, streamed);
    result_.most_slots = std::max(result_.most_slots, streamed + window.returning());
    result_.most_residents = std::max(result_.most_residents, window.at_work() - streamed);
  }
}

}  // namespace dos::sched_starpu

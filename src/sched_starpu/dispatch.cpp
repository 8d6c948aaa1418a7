// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/dispatch.hpp"

#include <algorithm>
#include <utility>

namespace dos::sched_starpu {
namespace {

/// What tells how long those of a queue take whose last one this is: streamed ones, or with
/// residents among them as if they were.
Stay travel_of(const TaskNote& note) {
  return note.stay() == Stay::kArrives ? Stay::kArrives : Stay::kStreams;
}

double value_of(const std::optional<units::Seconds>& time) {
  return time.value_or(units::Seconds(0)).value();
}

}  // namespace

Dispatch::Dispatch(bool adapts, Index most_streamed, const Tuning& tuning)
    : adapts_(adapts), most_streamed_(most_streamed), tuning_(tuning) {}

Index Dispatch::add_group(const Device& device) {
  groups_.push_back({.device = device});
  return std::ssize(groups_) - 1;
}

Index Dispatch::add_worker(Index group) {
  at(group).pace.add_worker();
  at(group).load.add_worker(at(group).device.is_cpu());
  return at(group).pace.workers() - 1;
}

void Dispatch::push(const ReadyTasks::Key& key, TaskNote& note) {
  at(note.group).queued_seconds += note.seconds;
  at(note.group).ready.add(key, &note);
}

void Dispatch::push_update(const ReadyTasks::Key& key, TaskNote& note, const UpdateBoard& board,
                           double now) {
  const Index step = board.subgroups().step();
  if (step != std::exchange(step_, step)) coming_ = last_came_ - std::exchange(step_begin_, now);
  if (!note.is_redone) last_came_ = now;
  Group& group = at(note.group);
  group.queued_seconds += note.seconds;
  const double kernel =
      value_of(board.rates().expected(note.params, group.device, Stay::kResident));
  group.due.add_kernel(now, kernel / static_cast<double>(std::max<Index>(1, group.pace.workers())));
  if (note.travels)
    group.due.add_states(now,
                         value_of(board.rates().expected(note.params, group.device, note.stay())));
  const bool waits_its_turn = !group.device.is_cpu() && !note.travels;
  (waits_its_turn ? group.residents : group.updates).add(key, &note);
}

bool Dispatch::is_late(const Group& gpu, const UpdateBoard& board, Index params, double now) const {
  if (!board.plans().plan()) return false;
  const units::ParamsPerSecond rate = board.plans().rate(gpu.device);
  const double planned = board.rates().time_at(rate, params, gpu.device).value();
  return gpu.pace.seconds(planned, params, now) > tuning_.late * planned;
}

GpuWindow::Limits Dispatch::limits(const Group& gpu, const UpdateBoard& board, Index params,
                                   double now) const {
  GpuWindow::Limits limits = board.plans().limits(gpu.device.gpu);
  const SubgroupRegistry& step = board.subgroups();
  const bool beside_backward =
      board.are_beside_backward() && (!step.all_arrived() || step.runs_again());
  const bool beside_forward = !board.are_beside_backward() && board.plans().is_for_forward() &&
                              board.rates().has_other_work(gpu.device.gpu);
  // What those that are made again took the next forward and backward would miss.
  if (beside_backward) {
    limits.slots = std::max<Index>(1, limits.beside);
    limits.spare = 0;
  }
  // What is on its way home has memory that forward's activations leave.
  if (beside_forward) limits.slots = std::min(limits.slots, std::max(limits.window, limits.beside));
  if (beside_backward) {
    // Kernels run between backward's tasks: meanwhile the link fills what memory there is.
    const double each = value_of(board.rates().expected(params, gpu.device, Stay::kStreams));
    const auto come = static_cast<Index>(each > 0 ? gpu.load.start_after(0, now) / each : 0);
    limits.window = std::max(limits.window, std::min(limits.slots, limits.window + come));
  }
  // What a late GPU does not hold others may take.
  const bool late = adapts_ && is_late(gpu, board, params, now);
  const Index most = late ? tuning_.late_window : most_streamed_;
  if (most > 0) limits.window = std::min(most, limits.window);
  if (most > 0) limits.arrivals = std::min(most, limits.arrivals);
  return limits;
}

ReadyTasks* Dispatch::first_with_room(Group& gpu, const UpdateBoard& board, double now) const {
  ReadyTasks* first = nullptr;
  for (ReadyTasks* queue : {&gpu.updates, &gpu.residents}) {
    if (queue->empty() || (first != nullptr && first->first_key() < queue->first_key())) continue;
    const TaskNote& note = queue->first();
    if (gpu.window.has_room(note.stay(), limits(gpu, board, note.params, now))) first = queue;
  }
  return first;
}

TaskNote* Dispatch::enter(Group& gpu, TaskNote& note, const UpdateBoard& board, double now) const {
  gpu.window.enter(note.stay(), now, note.seconds);
  note.in_window = true;
  note.is_brief = is_brief(gpu.device, note.params, board);
  note.latest = now + tuning_.late * static_cast<double>(gpu.window.at_work()) *
                          value_of(board.rates().expected(note.params, gpu.device, note.stay()));
  return &note;
}

ReadyTasks::Node Dispatch::next_ahead(Group& cpu, const UpdateBoard& board) {
  if (groups_.size() == 1 || cpu.updates.empty()) return {};
  if (cpu.ahead >= board.plans().gradients_ahead(cpu.pace.workers())) return {};
  ReadyTasks::Node node = cpu.updates.take_first();
  ++cpu.ahead;
  node.mapped()->in_window = true;
  return node;
}

void Dispatch::admitted(ReadyTasks::Node&& node) {
  Group& group = at(node.mapped()->group);
  (group.device.is_cpu() ? group.fetched : group.admitted).add(std::move(node));
}

double Dispatch::time_left(const Group& owner, const TaskNote& last, Index residents,
                           const UpdateBoard& board, double one, double now) {
  const auto expected = [&](Index params, Stay stay) {
    return value_of(board.rates().expected(params, owner.device, stay));
  };
  // Of updates like all of these, which may be much smaller than `last`.
  const auto each = [&](const ReadyTasks& some, const ReadyTasks& others, Stay stay) {
    const Index count = some.size() + others.size();
    return expected(count > 0 ? (some.params() + others.params()) / count : last.params, stay);
  };
  const double slower = one / expected(last.params, travel_of(last));
  const Index waiting = owner.updates.size();
  if (owner.device.is_cpu())
    return owner.pace.time_left(waiting + owner.fetched.size(),
                                slower * each(owner.updates, owner.fetched, travel_of(last)), now);
  const auto streamed = static_cast<double>(waiting + owner.window.travelling());
  const auto all = static_cast<double>(waiting + residents + owner.window.at_work());
  const double working = owner.window.working(now);
  if (!last.travels) {
    const double mean = slower * each(owner.updates, owner.residents, travel_of(last));
    return mean * all - std::min(mean, working);
  }
  // Residents are updated while states are copied.
  const double resident = each(owner.updates, owner.residents, Stay::kResident);
  const double copied = slower * each(owner.updates, {}, travel_of(last));
  return std::max(copied * streamed - std::min(copied, owner.window.travelling(now)),
                  resident * all - std::min(resident, working));
}

bool Dispatch::is_overdue(const Group& owner, const TaskNote& last, const UpdateBoard& board,
                          double now) const {
  const double one = value_of(board.rates().expected(last.params, owner.device, travel_of(last)));
  const auto workers = static_cast<double>(std::max<Index>(1, owner.pace.workers()));
  const double planned = step_begin_ + board.plans().end(owner.device).value();
  return now + time_left(owner, last, owner.residents.size(), board, one, now) >
         std::max(planned, owner.due.end()) + one / workers;
}

bool Dispatch::should_help(const Group& idle, Group& owner, const TaskNote& last,
                           const ReadyTasks::Key& key, const UpdateBoard& board, double now) const {
  const auto mine = board.rates().expected(last.params, idle.device);
  const auto theirs = board.rates().expected(last.params, owner.device, travel_of(last));
  if (!mine || !theirs) return false;
  if (!is_overdue(owner, last, board, now)) return false;
  const double my_time = idle.pace.seconds(mine->value(), last.params, now);
  const double their_time = owner.pace.seconds(theirs->value(), last.params, now);
  // On a GPU it is the turn of those in the window first, and states come and go.
  const double turns = tuning_.turns_of_help + static_cast<double>(idle.window.at_work());
  double cost = idle.device.is_cpu() ? my_time : my_time * turns;
  if (last.is_resident) {
    // What stays on a GPU would leave it now and come back in the next step: only if it is late,
    // not with one update alone, and not for longer than a step that is so late.
    if (!is_late(owner, board, last.params, now) || owner.window.slowness(now) < tuning_.late)
      return false;
    if (my_time > tuning_.late * board.plans().end(owner.device).value()) return false;
    cost += tuning_.trips_of_a_resident * theirs->value();
  }
  const auto ends_first = [&](Index residents) {
    return cost < time_left(owner, last, residents, board, their_time, now);
  };
  if (!ends_first(owner.residents.size())) return false;
  // Residents behind it do not delay it: the next forward pass may need it much sooner than them.
  if (owner.kept == key && now < owner.kept_until) return false;
  if (ends_first(owner.residents.before(key))) return true;
  owner.kept = key;
  owner.kept_until = now + cost * tuning_.ask_again;
  return false;
}

void Dispatch::move(TaskNote& note, Index to, const UpdateBoard& board) {
  at(note.group).queued_seconds -= note.seconds;
  if (note.in_window) --at(note.group).ahead;
  note.in_window = false;
  note.group = to;
  note.moved = MoveReason::kOverdue;
  note.is_resident = false;
  note.travels = !at(to).device.is_cpu();
  note.seconds = value_of(board.rates().expected(note.params, at(to).device));
  at(to).queued_seconds += note.seconds;
}

void Dispatch::returned(Index gpu, Index buffers) {
  at(gpu).window.returned(buffers);
}

void Dispatch::taken(TaskNote& note, Index worker, double now) {
  Group& group = at(note.group);
  note.worker = worker;
  note.taken = now;
  group.queued_seconds = std::max(0.0, group.queued_seconds - note.seconds);
  group.load.take(worker, now, note.seconds);
  if (note.subgroup >= 0) group.pace.begin(worker, now);
}

double Dispatch::start_of(Index index, double now) const {
  const Group& group = groups_[static_cast<std::size_t>(index)];
  return group.load.start_after(group.queued_seconds, now);
}

bool Dispatch::is_brief(const Device& gpu, Index params, const UpdateBoard& board) const {
  return value_of(board.rates().expected(params, gpu, Stay::kResident)) <=
         tuning_.brief * value_of(board.rates().expected(params, gpu, Stay::kStreams));
}

bool Dispatch::is_hidden_on_cpu(double length, const UpdateBoard& board, double now) const {
  // Of another step nobody knows yet when the last one comes.
  if (board.subgroups().step() != step_) return false;
  const Group& cpu = groups_.front();
  const double to_come = value_of(board.rates().expected(board.subgroups().params_to_come(), {}));
  const double left = step_begin_ + coming_ - now;
  return cpu.load.start_after(cpu.queued_seconds + length + to_come, now) + length <= left;
}

bool Dispatch::ended(TaskNote& note, Index leaving, double now) {
  Group& group = at(note.group);
  group.pace.end(note.worker, now, note.params);
  group.last_update_end = now;
  if (!std::exchange(note.in_window, false)) return false;
  if (group.device.is_cpu()) {
    --group.ahead;
    return false;
  }
  group.window.leave(note.stay(), now);
  if (note.is_resident) return false;
  group.window.send_back(leaving);
  return true;
}

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/ledger.hpp"

#include <algorithm>
#include <utility>

namespace dos::sched_starpu {

Ledger::Ledger(Index cpu_workers, Index gpus, const Tuning& tuning)
    : tuning_(tuning), cpu_workers_(cpu_workers), is_moved_into_(static_cast<std::size_t>(gpus)) {}

void Ledger::begin_step(Index step) {
  if (current_.step > 0) {
    if (std::ssize(last_) == tuning_.reported_steps) last_.erase(last_.begin());
    last_.push_back(current_);
    over_ += current_;
  }
  is_moved_into_.assign(is_moved_into_.size(), false);
  current_ = {.step = step, .flushed = std::exchange(next_flushed_, {})};
  current_.needed.resize(is_moved_into_.size());
}

Place Ledger::placed(Index index, const UpdateTask& task, Place place) {
  if (index >= std::ssize(entries_)) entries_.resize(static_cast<std::size_t>(index + 1));
  Entry& entry = entries_[static_cast<std::size_t>(index)];
  if (task.kept_on >= 0) entry.home = task.kept_on;
  place.arrives = place.is_resident && entry.home != place.device.gpu;
  if (place.arrives) is_moved_into_[static_cast<std::size_t>(place.device.gpu)] = true;
  entry.has_moved = entry.placed.device != place.device;
  entry.placed = place;
  current_.total += params_of(task.params);
  if (!place.device.is_cpu()) current_.planned_gpu += params_of(task.params);
  return place;
}

bool Ledger::ran(Index index, const UpdateTask& task, Device device,
                 std::optional<MoveReason> reason) {
  const auto [placed, has_moved, home] = entries_[static_cast<std::size_t>(index)];
  const bool is_there = device == placed.device;
  count_share(task, placed.device, device, reason);
  if (!is_moved_into_.empty())
    count_traffic(index, task, is_there ? placed : Place{.device = device});
  return !device.is_cpu() &&
         (has_moved || !is_there || is_moved_into_[static_cast<std::size_t>(device.gpu)]);
}

void Ledger::count_share(const UpdateTask& task, Device planned, Device device,
                         std::optional<MoveReason> reason) {
  const units::Params params = params_of(task.params);
  ++current_.updates;
  if (!device.is_cpu()) current_.executed_gpu += params;
  if (device == planned) return;
  ++current_.moved;
  if (!reason) return;
  ++(*reason == MoveReason::kOverdue ? current_.overdue : current_.sooner);
  if (device.is_cpu()) current_.to_cpu += params;
  if (planned.is_cpu()) current_.to_gpu += params;
}

void Ledger::count_traffic(Index index, const UpdateTask& task, const Place& place) {
  const sched::UpdateCost& cost = task.cost;
  const auto move = [&](Index gpu, units::BytesPerParam in, units::BytesPerParam out) {
    Traffic& traffic = current_.needed[static_cast<std::size_t>(gpu)];
    traffic.in += params_of(task.params) * in;
    traffic.out += params_of(task.params) * out;
  };
  const Index gpu = place.device.gpu;
  const Index home =
      std::exchange(entries_[static_cast<std::size_t>(index)].home, place.stays_on());
  const bool is_here = home >= 0 && home == gpu;
  if (home >= 0 && !is_here) move(home, units::BytesPerParam{0}, cost.state);
  if (place.device.is_cpu())
    move(task.user >= 0 ? task.user : index % std::ssize(is_moved_into_), cost.weight,
         cost.gradient);
  else
    move(gpu, is_here ? cost.host_gradient : cost.streamed_in(),
         place.is_resident ? cost.host_parameter : cost.streamed_out());
}

void Ledger::flushed(units::Bytes bytes, bool is_next) {
  (is_next ? next_flushed_ : current_.flushed) += bytes;
}

void Ledger::waited(units::Seconds time) {
  current_.waited += time / static_cast<double>(cpu_workers_);
}

std::vector<Index> Ledger::homes(Index count) const {
  std::vector<Index> homes(static_cast<std::size_t>(count), -1);
  std::ranges::transform(entries_, homes.begin(), &Entry::home);
  return homes;
}

std::optional<StepReport> Ledger::step(Index step) const {
  if (step == current_.step && step > 0) return current_;
  const auto found = std::ranges::find(last_, step, &StepReport::step);
  return found == last_.end() ? std::nullopt : std::optional(*found);
}

StepReport Ledger::all() const {
  StepReport sum = over_;
  if (current_.step > 0) sum += current_;
  return sum;
}

StepReport& StepReport::operator+=(const StepReport& later) {
  step = later.step;
  planned_gpu += later.planned_gpu;
  executed_gpu += later.executed_gpu;
  total += later.total;
  updates += later.updates;
  moved += later.moved;
  overdue += later.overdue;
  sooner += later.sooner;
  to_cpu += later.to_cpu;
  to_gpu += later.to_gpu;
  flushed += later.flushed;
  waited += later.waited;
  needed.resize(later.needed.size());
  for (std::size_t gpu = 0; gpu < needed.size(); ++gpu) {
    needed[gpu].in += later.needed[gpu].in;
    needed[gpu].out += later.needed[gpu].out;
  }
  return *this;
}

}  // namespace dos::sched_starpu

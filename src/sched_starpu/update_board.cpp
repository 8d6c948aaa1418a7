// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/update_board.hpp"

#include <algorithm>
#include <cmath>

#include "sched/policy_registry.hpp"

namespace dos::sched_starpu {

UpdateBoard::UpdateBoard(std::string policy, sched::PolicyOptions options,
                         Surroundings surroundings, const Tuning& tuning)
    : tuning_(tuning),
      subgroups_(tuning),
      rates_(std::move(surroundings), sched::find_policy(policy).uses_gpus, tuning),
      plans_(std::move(policy), std::move(options), tuning),
      ledger_(rates_.around().cpu_workers, std::ssize(rates_.around().gpus), tuning) {}

Index UpdateBoard::arrive(const UpdateTask& task) {
  if (task.is_redone)
    if (const std::optional<Index> known = subgroups_.arrived(task.subgroup)) {
      subgroups_.arrives_again();
      return *known;
    }
  const auto [index, begins_step] = subgroups_.arrive(task);
  if (index == 0) rates_.set_cost(task.cost);
  if (begins_step) {
    const StepTimes last = take_times();
    ledger_.begin_step(subgroups_.step());
    forward_watch_.begin_step();
    if (subgroups_.step() == tuning_.memory_step) rates_.read_memory();
    rates_.begin_step(take_beside(), params_of(subgroups_.params_before()),
                      params_of(subgroups_.largest()));
    if (subgroups_.step() > 1 && !subgroups_.are_all_kept())
      plans_.begin_step(rates_, ledger_.homes(subgroups_.size()), last);
  }
  return index;
}

void UpdateBoard::saw_other(Device gpu, units::Seconds time) {
  if (are_beside_backward()) {
    if (!subgroups_.all_arrived())
      rates_.see_other(gpu, time);
    else if (forward_watch_.sees() && !forward_watch_.is_over())
      rates_.see_forward(gpu, time);
    return;
  }
  if (!subgroups_.all_arrived()) {
    while_they_came_ += time;
  } else if (forward_watch_.sees() ? !forward_watch_.is_over() : !subgroups_.all_ran()) {
    when_all_had_come_ += time;
    rates_.see_other(gpu, time);
  }
}

Beside UpdateBoard::take_beside() {
  const units::Seconds came = std::exchange(while_they_came_, units::Seconds(0));
  const units::Seconds rest = std::exchange(when_all_had_come_, units::Seconds(0));
  if (are_beside_backward()) return Beside::kBackward;
  return came > rest * tuning_.at_once ? Beside::kBoth : Beside::kForward;
}

StepTimes UpdateBoard::take_times() {
  const StepTimes times{.step = now_ - began_, .updates = last_end_ - began_};
  began_ = now_;
  // Updates beside backward take as long as that.
  return are_beside_backward() ? StepTimes{} : times;
}

/// Each of its tasks needs as many parameters as the others.
void UpdateBoard::set_forward(sched::Problem& problem) const {
  problem.forward = rates_.forward();
  if (problem.forward.empty()) return;
  const units::Params each = problem.total() / static_cast<double>(problem.forward.size());
  units::Params before{0};
  for (sched::Subgroup& subgroup : problem.subgroups) {
    subgroup.depth = std::min(static_cast<Index>(before / each), std::ssize(problem.forward) - 1);
    before += params_of(subgroup.params);
  }
}

PlanOrder UpdateBoard::order() {
  sched::Problem problem;
  std::vector<Index> subgroups = subgroups_.by_priority();
  const std::vector<Index> homes = ledger_.homes(subgroups_.size());
  Index room = 0;
  for (const Index index : subgroups) {
    const UpdateTask& task = subgroups_.task(index);
    problem.subgroups.push_back({.params = task.params,
                                 .depth = std::ssize(problem.subgroups),
                                 .user = task.user,
                                 .kept_on = task.kept_on});
    room += task.allocated();
    // Of those with two banks, if some have: they take most memory.
    if (problem.subgroups.size() == 1 || task.cost.banks > problem.cost.banks)
      problem.cost = task.cost;
    problem.homes.push_back(homes[static_cast<std::size_t>(index)]);
  }
  problem.rates = rates_.for_plan(problem.cost);
  set_forward(problem);
  // Plans count what is in the buffers, and more where these are filled less than the others. Less
  // nowhere: streamed updates of several sizes need memory of each.
  const double filled = problem.total() / params_of(room);
  for (std::size_t i = 0; i < subgroups.size(); ++i) {
    const auto allocated = static_cast<double>(subgroups_.task(subgroups[i]).allocated());
    problem.subgroups[i].room =
        std::max<Index>(problem.subgroups[i].params, std::llround(allocated * filled));
  }
  for (const Surroundings::Gpu& gpu : rates_.around().gpus)
    problem.memory.push_back({.update = gpu.memory.update * filled,
                              .resident = gpu.memory.resident * filled,
                              .reserve = gpu.memory.reserve * filled,
                              .gradients = gpu.memory.gradients * filled,
                              .passing = {.bytes = gpu.memory.passing.bytes * filled,
                                          .update = gpu.memory.passing.update * filled,
                                          .resident = gpu.memory.passing.resident * filled}});
  // The runtime does not count what is kept for good as free.
  for (std::size_t i = 0; i < subgroups.size(); ++i) {
    if (problem.subgroups[i].kept_on < 0) continue;
    sched::StateMemory& memory =
        problem.memory[static_cast<std::size_t>(problem.subgroups[i].kept_on)];
    for (units::Bytes* free :
         {&memory.update, &memory.resident, &memory.passing.update, &memory.passing.resident})
      *free += problem.held_bytes(static_cast<Index>(i));
  }
  return plans_.order(std::move(problem), std::move(subgroups));
}

bool UpdateBoard::may_plan_ahead() const {
  // The first step has no plan, and of the second nobody knows when all its updates have come.
  return subgroups_.step() > 1 && subgroups_.step() + 1 != tuning_.memory_step &&
         subgroups_.all_ran() && (forward_watch_.is_over() || !forward_watch_.sees()) &&
         planned_ahead_ != stage();
}

std::optional<PlanOrder> UpdateBoard::next_order() const {
  UpdateBoard next = *this;
  next.arrive(subgroups_.task(0));
  return next.plans_.is_due() ? std::optional(next.order()) : std::nullopt;
}

void UpdateBoard::executed(Index index, Device device, units::Seconds time,
                           std::optional<MoveReason> reason, bool is_redone) {
  const UpdateTask& task = subgroups_.task(index);
  last_end_ = now_;
  subgroups_.ran(is_redone);
  rates_.see(task.params, device, time, ledger_.ran(index, task, device, reason));
}

std::optional<Index> UpdateBoard::updated_on_cpu(const void* gradient) const {
  const std::optional<Index> index = subgroups_.with_gradient(gradient);
  // Not by planned(): probes of the first step are the CPU's in the second, as long as nobody has
  // planned, and while residents move, the step that comes has another plan.
  return index && plans_.goal(*index).device.is_cpu() ? index : std::nullopt;
}

Place UpdateBoard::planned(Index index) const {
  if (const Index gpu = subgroups_.task(index).kept_on; gpu >= 0)
    return {.device = {.gpu = gpu}, .is_resident = true};
  if (plans_.has_step_plan() || subgroups_.step() > 1) return plans_.place(index);
  return {.device = rates_.probe(index)};
}

std::vector<UpdateRoom> UpdateBoard::rooms() const {
  std::vector<UpdateRoom> rooms;
  if (!plans_.has_step_plan() || are_beside_backward()) return rooms;
  rooms.resize(rates_.around().gpus.size());
  std::vector<std::vector<units::Bytes>> streamed(rooms.size());
  for (Index i = 0; i < subgroups_.size(); ++i) {
    const Place place = plans_.place(i);
    if (place.device.is_cpu() || place.is_resident) continue;
    const UpdateTask& task = subgroups_.task(i);
    streamed[static_cast<std::size_t>(place.device.gpu)].push_back(params_of(task.allocated()) *
                                                                   task.cost.held());
  }
  for (std::size_t gpu = 0; gpu < rooms.size(); ++gpu) {
    if (streamed[gpu].empty()) continue;
    UpdateRoom& room = rooms[gpu];
    const units::Bytes largest = std::ranges::max(streamed[gpu]);
    units::Bytes others{0};
    for (const units::Bytes each : streamed[gpu])
      if (each < largest) others += each;
    room.is_even = others <= largest;
    const GpuWindow::Limits limits = plans_.limits(static_cast<Index>(gpu));
    const auto slots = static_cast<double>(limits.slots);
    room.streaming = largest * (slots + static_cast<double>(limits.spare) /
                                            static_cast<double>(limits.buffers)) +
                     others;
  }
  return rooms;
}

bool UpdateBoard::prefers_earliest_end() const {
  const sched::PolicyOptions& asked = plans_.options();
  return plans_.plan() && subgroups_.kept_pace() && !asked.share && !asked.stride;
}

UpdatesReport UpdateBoard::report() const {
  UpdatesReport report{.plan = plans_.in_words(),
                       .reason = plans_.plan() ? plans_.plan()->reason : "",
                       .obstacle = plans_.obstacle(),
                       .plans = plans_made_,
                       .steps = ledger_.last(),
                       .all = ledger_.all(),
                       .devices = {{}}};
  for (const auto& [h2d, d2h, memory] : rates_.around().gpus)
    report.devices.push_back({.h2d = h2d, .d2h = d2h, .memory = memory});
  for (Index i = 0; DeviceReport & device : report.devices) {
    const LearnedRate& rate = rates_.of({.gpu = i++ - 1});
    device.rate = rate.value();
    device.rate_is_measured = rate.is_measured();
  }
  return report;
}

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/update_board.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "sched/interleave.hpp"
#include "sched/registry.hpp"

namespace dos::sched_starpu {
namespace {

constexpr Index kProbesPerGpu = 2;
/// Of the CPU's workers, whose gradients are asked for before there is a plan.
constexpr Index kRoundsUnplanned = 3;
constexpr double kChangeWorthPlanning = 0.05;
/// Of the CPU's: the rate that plans assume for a GPU where nobody measured it and no update goes.
/// Their bound is then the CPU's.
constexpr double kUnknownGpu = 1e-6;

units::Params params_of(Index count) {
  return units::Params(static_cast<double>(count));
}

}  // namespace

LearnedRate& UpdateBoard::rate_of(Device device) {
  return device.is_cpu() ? cpu_ : gpus_[static_cast<std::size_t>(device.gpu)];
}

const LearnedRate& UpdateBoard::rate_of(Device device) const {
  return device.is_cpu() ? cpu_ : gpus_[static_cast<std::size_t>(device.gpu)];
}

void UpdateBoard::suggest(Index params, Device device, units::Seconds time) {
  if (time.value() > 0 && params > 0) rate_of(device).suggest(params_of(params) / time);
}

UpdateBoard::UpdateBoard(std::string policy, sched::PolicyOptions options,
                         Surroundings surroundings)
    : policy_(std::move(policy)),
      options_(std::move(options)),
      surroundings_(std::move(surroundings)),
      gpus_(surroundings_.gpus.size()),
      uses_gpus_(sched::find_policy(policy_).uses_gpus),
      is_moved_into_(gpus_.size()) {
  options_.validate();
}

Index UpdateBoard::arrive(const UpdateTask& task) {
  const auto [place, is_new] = index_of_.try_emplace(task.subgroup, std::ssize(known_));
  const Index index = place->second;
  if (is_new) {
    known_.push_back({.task = task});
    index_of_gradient_.emplace(task.gradient, index);
  }
  Known& known = known_[static_cast<std::size_t>(index)];
  known.task = task;
  if (current_.step == 0 || known.step == current_.step) begin_step();
  known.step = current_.step;
  unfinished_ = ++arrived_ - current_.updates;
  return index;
}

Place UpdateBoard::place(Index index) {
  Place result = planned(index);
  Known& known = known_[static_cast<std::size_t>(index)];
  result.arrives = result.is_resident && known.home != result.device.gpu;
  if (result.arrives) is_moved_into_[static_cast<std::size_t>(result.device.gpu)] = true;
  known.has_moved = known.placed.device != result.device;
  known.placed = result;
  const units::Params params = params_of(known.task.params);
  current_.total += params;
  if (!result.device.is_cpu()) current_.planned_gpu += params;
  return result;
}

void UpdateBoard::begin_step() {
  if (current_.step > 0) end_step();
  kept_pace_ = 2 * unfinished_ <= arrived_;
  expected_ = std::exchange(arrived_, 0);
  is_moved_into_.assign(gpus_.size(), false);
  current_ = {.step = current_.step + 1, .flushed = std::exchange(next_flushed_, {})};
  current_.needed.resize(gpus_.size());
  if (current_.step == 1) return;
  if (!rates_are_known()) {
    obstacle_ = "no update has run on every device yet, or its codelet cannot run on all of them";
    return;
  }
  // Until somebody has planned, that was the only obstacle.
  if (planned_subgroups_ == 0) obstacle_.clear();
  replans_ = planned_subgroups_ != std::ssize(known_) || rates_have_changed();
  const bool settled = is_settled();
  due_ = replans_ || (plan_ && !settled);
  if (due_ || !settled) return;
  step_plan_ = plan_;
  step_ends_ = planned_ends_;
}

bool UpdateBoard::rates_are_known() const {
  return cpu_.value() && (!uses_gpus_ || std::ranges::all_of(gpus_, [](const LearnedRate& r) {
           return r.value().has_value();
         }));
}

units::ParamsPerSecond UpdateBoard::gpu_rate(std::size_t gpu) const {
  return gpus_[gpu].value().value_or(*cpu_.value() * kUnknownGpu);
}

bool UpdateBoard::rates_have_changed() const {
  const auto changed = [&](units::ParamsPerSecond now, std::size_t place) {
    return std::abs(now / planned_with_[place] - 1) > kChangeWorthPlanning;
  };
  if (changed(*cpu_.value(), 0)) return true;
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu)
    if (changed(gpu_rate(gpu), gpu + 1)) return true;
  return false;
}

std::optional<PlanOrder> UpdateBoard::order() {
  if (!due_ || being_planned_) return std::nullopt;
  due_ = false;
  being_planned_ = true;
  PlanOrder order{.policy = policy_,
                  .options = options_,
                  .problem = {},
                  .subgroups = std::vector<Index>(known_.size()),
                  .rates = {*cpu_.value()},
                  .current = {},
                  .replans = replans_};
  std::iota(order.subgroups.begin(), order.subgroups.end(), Index{0});
  std::ranges::stable_sort(order.subgroups, [&](Index a, Index b) {
    return known_[static_cast<std::size_t>(a)].task.priority >
           known_[static_cast<std::size_t>(b)].task.priority;
  });
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) order.rates.push_back(gpu_rate(gpu));
  order.problem = describe(order.subgroups);
  if (planned_subgroups_ == std::ssize(known_)) order.current = plan_;
  return order;
}

void UpdateBoard::adopt(PlanOutcome outcome) {
  being_planned_ = false;
  const PlanOrder& order = outcome.order;
  for (std::size_t i = 0; i < order.subgroups.size(); ++i)
    known_[static_cast<std::size_t>(order.subgroups[i])].position = static_cast<Index>(i);
  planned_subgroups_ = std::ssize(order.subgroups);
  planned_with_ = order.rates;
  plan_ = std::move(outcome.plan);
  planned_ends_ = std::move(outcome.ends);
  step_plan_ = std::move(outcome.step);
  step_ends_ = std::move(outcome.step_ends);
  problem_ = std::move(outcome.order.problem);
  obstacle_ = std::move(outcome.obstacle);
  count_slots();
}

void UpdateBoard::count_slots() {
  slots_.assign(gpus_.size(), 1);
  arrivals_.assign(gpus_.size(), 1);
  for (std::size_t g = 0; plan_ && g < gpus_.size(); ++g)
    arrivals_[g] = sched::arrivals_at_once(*problem_, static_cast<Index>(g));
  for (std::size_t g = 0; plan_ && g < gpus_.size(); ++g) {
    units::Bytes room = problem_->memory[g].update;
    units::Bytes largest{0};
    for (std::size_t i = 0; i < plan_->assignments.size(); ++i) {
      const sched::Assignment& each = plan_->assignments[i];
      if (each.placement == sched::Placement::kCpu || each.gpu != static_cast<Index>(g)) continue;
      const auto subgroup = static_cast<Index>(i);
      if (each.placement == sched::Placement::kResident)
        room -= problem_->held_bytes(subgroup);
      else
        largest = std::max(largest, problem_->streamed_bytes(subgroup, each.gpu));
    }
    if (largest.value() > 0)
      slots_[g] = std::max<Index>(1, static_cast<Index>(std::floor(room / largest)));
  }
}

sched::Problem UpdateBoard::describe(const std::vector<Index>& order) const {
  sched::Problem problem;
  for (const Index index : order) {
    const UpdateTask& task = known_[static_cast<std::size_t>(index)].task;
    problem.subgroups.push_back(
        {.params = task.params, .depth = std::ssize(problem.subgroups), .user = task.user});
    problem.cost = task.cost;
    problem.homes.push_back(known_[static_cast<std::size_t>(index)].home);
  }
  perfmodels::Rates& rates = problem.rates;
  rates.cpu_workers = surroundings_.cpu_workers;
  rates.cpu_worker = *cpu_.value();
  rates.cpu_update = *cpu_.value() * static_cast<double>(surroundings_.cpu_workers);
  rates.transfer_latency = surroundings_.transfer_latency;
  rates.task_latency = cpu_.overhead();
  units::BytesPerSecond links{0};
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const Surroundings::Gpu& gpu = surroundings_.gpus[i];
    const units::BytesPerSecond both = gpu.h2d + gpu.d2h;
    rates.gpus.push_back({.update = gpu_rate(i),
                          .h2d = gpu.h2d,
                          .d2h = gpu.d2h,
                          .both = both,
                          .h2d_cpu_busy = gpu.h2d,
                          .d2h_cpu_busy = gpu.d2h,
                          .both_cpu_busy = both});
    problem.memory.push_back(gpu.memory);
    links += both;
  }
  // Nobody tells a policy what DRAM can do: enough for all at once, so that it does not limit.
  rates.dram = rates.cpu_update * problem.cost.cpu_traffic + links;
  return problem;
}

void UpdateBoard::set_memory(Device gpu, const sched::StateMemory& for_states) {
  surroundings_.gpus[static_cast<std::size_t>(gpu.gpu)].memory = for_states;
}

std::optional<Index> UpdateBoard::updated_on_cpu(const void* gradient) const {
  const auto found = index_of_gradient_.find(gradient);
  if (found == index_of_gradient_.end()) return std::nullopt;
  // Probes of the first step are the CPU's in the second, as long as nobody has planned. While
  // residents move, the step that comes has another plan.
  const bool is_cpus =
      place_in(plan_, known_[static_cast<std::size_t>(found->second)]).device.is_cpu();
  return is_cpus ? std::optional(found->second) : std::nullopt;
}

void UpdateBoard::flushed(Index index, units::Bytes bytes) {
  // One whose update of this step has arrived is of the next.
  const bool is_next = known_[static_cast<std::size_t>(index)].step == current_.step;
  (is_next ? next_flushed_ : current_.flushed) += bytes;
}

void UpdateBoard::waited(units::Seconds time) {
  current_.waited += time / static_cast<double>(surroundings_.cpu_workers);
}

Place UpdateBoard::planned(Index index) const {
  const Known& known = known_[static_cast<std::size_t>(index)];
  if (step_plan_) return place_in(step_plan_, known);
  const Index gpus = std::ssize(gpus_);
  if (!uses_gpus_ || current_.step > 1 || index >= kProbesPerGpu * gpus) return {};
  const Device gpu{.gpu = index % gpus};
  return rate_of(gpu).is_suggested() ? Place{} : Place{.device = gpu};
}

Place UpdateBoard::place_in(const std::optional<sched::Plan>& plan, const Known& known) const {
  if (!plan || known.position < 0) return {};
  const sched::Assignment& assignment = plan->assignments[static_cast<std::size_t>(known.position)];
  if (assignment.placement == sched::Placement::kCpu) return {};
  return {.device = {.gpu = assignment.gpu},
          .is_resident = assignment.placement == sched::Placement::kResident};
}

bool UpdateBoard::is_settled() const {
  return std::ranges::all_of(known_, [&](const Known& known) {
    const Place place = place_in(plan_, known);
    return known.home == (place.is_resident ? place.device.gpu : -1);
  });
}

Index UpdateBoard::window(Index gpu) const {
  return step_plan_ ? std::max<Index>(1, step_plan_->window[static_cast<std::size_t>(gpu)]) : 1;
}

Index UpdateBoard::arrivals(Index gpu) const {
  return arrivals_.empty() ? 1 : arrivals_[static_cast<std::size_t>(gpu)];
}

Index UpdateBoard::slots(Index gpu) const {
  return slots_.empty() ? 1 : slots_[static_cast<std::size_t>(gpu)];
}

Index UpdateBoard::gradients_ahead(Index workers) const {
  return problem_ ? sched::gradients_ahead(*problem_, workers) : kRoundsUnplanned * workers;
}

units::Seconds UpdateBoard::write_back_time(Index params, Device gpu) const {
  const Surroundings::Gpu& link = surroundings_.gpus[static_cast<std::size_t>(gpu.gpu)];
  return surroundings_.transfer_latency +
         params_of(params) * known_.front().task.cost.streamed_out() / link.d2h;
}

void UpdateBoard::executed(Index index, Device device, units::Seconds time,
                           std::optional<MoveReason> reason) {
  Known& known = known_[static_cast<std::size_t>(index)];
  const Place& placed = known.placed;
  count_share(known, device, reason);
  if (!gpus_.empty())
    count_traffic(known, index, device == placed.device ? placed : Place{.device = device});
  if (!(time.value() > 0) || known.task.params == 0) return;
  const bool settles_in =
      !device.is_cpu() && (known.has_moved || device != placed.device ||
                           is_moved_into_[static_cast<std::size_t>(device.gpu)]);
  LearnedRate& rate = rate_of(device);
  const units::Params size = params_of(known.task.params);
  settles_in ? rate.glimpse(size / time) : rate.see(size, time);
}

units::Seconds UpdateBoard::update_time(Index params, Device device, units::ParamsPerSecond rate,
                                        Stay stay) const {
  const units::Params size = params_of(params);
  const units::Seconds kernel = rate_of(device).overhead() + size / rate;
  if (device.is_cpu()) return kernel;
  const Surroundings::Gpu& gpu = surroundings_.gpus[static_cast<std::size_t>(device.gpu)];
  const sched::UpdateCost& cost = known_.front().task.cost;
  const units::BytesPerParam in = stay == Stay::kResident ? cost.host_gradient : cost.streamed_in();
  const units::BytesPerParam out =
      stay == Stay::kStreams ? cost.streamed_out() : cost.host_parameter;
  const units::Seconds memory =
      stay == Stay::kArrives
          ? perfmodels::kAllocation * static_cast<double>(cost.state_buffers * std::ssize(gpus_))
          : units::Seconds(0);
  return std::max({kernel, size * in / gpu.h2d, size * out / gpu.d2h, memory});
}

std::optional<units::Seconds> UpdateBoard::expected(Index params, Device device, Stay stay) const {
  const std::optional<units::ParamsPerSecond>& rate = rate_of(device).value();
  if (!rate) return std::nullopt;
  return update_time(params, device, *rate, stay);
}

std::optional<units::Seconds> UpdateBoard::planned_time(Index params, Device device) const {
  if (!plan_) return std::nullopt;
  return update_time(params, device, planned_with_[static_cast<std::size_t>(device.gpu + 1)],
                     Stay::kStreams);
}

}  // namespace dos::sched_starpu

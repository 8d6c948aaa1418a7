// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/update_board.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "sched/registry.hpp"
#include "sched/replay.hpp"

namespace dos::sched_starpu {
namespace {

constexpr Index kProbesPerGpu = 2;
/// Weight of the newest measurement: a rate follows a change within some ten updates.
constexpr double kNewest = 0.1;
constexpr double kChangeWorthPlanning = 0.05;
constexpr double kGainWorthChanging = 0.03;

units::Params params_of(Index count) {
  return units::Params(static_cast<double>(count));
}

void add(StepReport& sum, const StepReport& step) {
  sum.step = step.step;
  sum.planned_gpu += step.planned_gpu;
  sum.executed_gpu += step.executed_gpu;
  sum.total += step.total;
  sum.moved += step.moved;
  sum.planned.resize(step.planned.size());
  for (std::size_t gpu = 0; gpu < step.planned.size(); ++gpu) {
    sum.planned[gpu].in += step.planned[gpu].in;
    sum.planned[gpu].out += step.planned[gpu].out;
  }
}

}  // namespace

void UpdateBoard::Rate::see(units::ParamsPerSecond rate) {
  // The first one may have loaded a kernel.
  value = ++seen > 2 ? *value * (1 - kNewest) + rate * kNewest : rate;
}

UpdateBoard::UpdateBoard(std::string policy, sched::PolicyOptions options,
                         Surroundings surroundings)
    : policy_(std::move(policy)),
      options_(std::move(options)),
      surroundings_(std::move(surroundings)),
      gpus_(surroundings_.gpus.size()) {
  static_cast<void>(sched::find_policy(policy_));
  options_.validate();
}

Index UpdateBoard::arrive(const UpdateTask& task) {
  const auto [place, is_new] = index_of_.try_emplace(task.subgroup, std::ssize(known_));
  const Index index = place->second;
  if (is_new) {
    known_.push_back({.task = task});
    learned_ = true;
  }
  Known& known = known_[static_cast<std::size_t>(index)];
  known.task = task;
  if (current_.step == 0 || known.step == current_.step) begin_step();
  known.step = current_.step;
  ++arrived_;
  const units::Params params = params_of(task.params);
  current_.total += params;
  if (!planned(index).is_cpu()) current_.planned_gpu += params;
  if (!gpus_.empty()) plan_traffic(known, index);
  return index;
}

void UpdateBoard::plan_traffic(Known& known, Index index) {
  const units::Params params = params_of(known.task.params);
  const sched::UpdateCost& cost = known.task.cost;
  const auto move = [&](Index gpu, units::BytesPerParam in, units::BytesPerParam out) {
    Traffic& traffic = current_.planned[static_cast<std::size_t>(gpu)];
    traffic.in += params * in;
    traffic.out += params * out;
  };
  const Index gpu = planned(index).gpu;
  const units::BytesPerParam none{0};
  if (gpu >= 0 && !is_resident(index)) {
    move(gpu, known.home < 0 ? cost.held() : cost.host_gradient, cost.state);
    known.home = -1;
    return;
  }
  if (known.home >= 0 && known.home != gpu) move(known.home, none, cost.state);
  if (gpu < 0)
    move(index % std::ssize(gpus_), cost.weight, cost.gradient);
  else
    move(gpu, cost.host_gradient + (known.home == gpu ? none : cost.state), cost.host_parameter);
  known.home = gpu;
}

void UpdateBoard::begin_step() {
  if (current_.step > 0) end_step();
  expected_ = std::exchange(arrived_, 0);
  current_ = {.step = current_.step + 1};
  current_.planned.resize(gpus_.size());
  if (current_.step == 1) return;
  if (!rates_are_known()) {
    obstacle_ = "no update has run on every device yet, or its codelet cannot run on all of them";
    return;
  }
  if (learned_ || planned_with_.empty() || rates_have_changed()) make_plan();
}

void UpdateBoard::end_step() {
  if (std::ssize(last_) == kReportedSteps) last_.erase(last_.begin());
  last_.push_back(current_);
  add(all_, current_);
}

bool UpdateBoard::rates_are_known() const {
  return cpu_.value &&
         std::ranges::all_of(gpus_, [](const Rate& r) { return r.value.has_value(); });
}

bool UpdateBoard::rates_have_changed() const {
  const auto changed = [&](units::ParamsPerSecond now, std::size_t place) {
    return std::abs(now / planned_with_[place] - 1) > kChangeWorthPlanning;
  };
  if (changed(*cpu_.value, 0)) return true;
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu)
    if (changed(*gpus_[gpu].value, gpu + 1)) return true;
  return false;
}

void UpdateBoard::make_plan() {
  std::vector<Index> order(known_.size());
  std::iota(order.begin(), order.end(), Index{0});
  std::ranges::stable_sort(order, [&](Index a, Index b) {
    return known_[static_cast<std::size_t>(a)].task.priority >
           known_[static_cast<std::size_t>(b)].task.priority;
  });
  for (std::size_t i = 0; i < order.size(); ++i)
    known_[static_cast<std::size_t>(order[i])].position = static_cast<Index>(i);
  planned_with_.assign(1, *cpu_.value);
  for (const Rate& gpu : gpus_) planned_with_.push_back(*gpu.value);
  sched::Problem problem = describe();
  sched::Plan plan;
  obstacle_.clear();
  try {
    plan = sched::make_plan(policy_, problem, options_);
  } catch (const Error& error) {
    obstacle_ = error.what();
    plan_.reset();
    learned_ = false;
    return;
  }
  const bool keep = plan_ && !learned_ &&
                    plan.time.value() > (1 - kGainWorthChanging) *
                                            sched::replay(problem, *plan_).update_end.value();
  if (!keep) plan_ = std::move(plan);
  problem_ = std::move(problem);
  learned_ = false;
}

sched::Problem UpdateBoard::describe() const {
  sched::Problem problem;
  problem.subgroups.resize(known_.size());
  for (const Known& known : known_) {
    problem.subgroups[static_cast<std::size_t>(known.position)] = {.params = known.task.params,
                                                                   .depth = known.position};
    problem.cost = known.task.cost;
  }
  perfmodels::Rates& rates = problem.rates;
  rates.cpu_workers = surroundings_.cpu_workers;
  rates.cpu_worker = *cpu_.value;
  rates.cpu_update = *cpu_.value * static_cast<double>(surroundings_.cpu_workers);
  rates.transfer_latency = surroundings_.transfer_latency;
  units::BytesPerSecond links{0};
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const Surroundings::Gpu& gpu = surroundings_.gpus[i];
    const units::BytesPerSecond both = gpu.h2d + gpu.d2h;
    rates.gpus.push_back({.update = *gpus_[i].value,
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

Report UpdateBoard::report() const {
  Report report{.plan = plan_ ? sched::describe(*plan_, *problem_) : "",
                .reason = plan_ ? plan_->reason : "",
                .obstacle = obstacle_,
                .steps = last_,
                .all = all_,
                .devices = {{.rate = cpu_.value}}};
  if (current_.step > 0) add(report.all, current_);
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu)
    report.devices.push_back({.rate = gpus_[gpu].value,
                              .h2d = surroundings_.gpus[gpu].h2d,
                              .d2h = surroundings_.gpus[gpu].d2h});
  return report;
}

Device UpdateBoard::planned(Index index) const {
  const Known& known = known_[static_cast<std::size_t>(index)];
  const Index gpus = std::ssize(gpus_);
  if (!plan_)
    return {.gpu = current_.step <= 1 && index < kProbesPerGpu * gpus ? index % gpus : -1};
  if (known.position < 0) return {};
  const sched::Assignment& assignment =
      plan_->assignments[static_cast<std::size_t>(known.position)];
  return {.gpu = assignment.placement == sched::Placement::kCpu ? -1 : assignment.gpu};
}

bool UpdateBoard::is_resident(Index index) const {
  const Index position = known_[static_cast<std::size_t>(index)].position;
  return plan_ && position >= 0 &&
         plan_->assignments[static_cast<std::size_t>(position)].placement ==
             sched::Placement::kResident;
}

Index UpdateBoard::window(Index gpu) const {
  return plan_ ? std::max<Index>(1, plan_->window[static_cast<std::size_t>(gpu)]) : 1;
}

void UpdateBoard::executed(Index index, Device device, units::Seconds time) {
  const Known& known = known_[static_cast<std::size_t>(index)];
  const units::Params params = params_of(known.task.params);
  if (!device.is_cpu()) current_.executed_gpu += params;
  if (device != planned(index)) ++current_.moved;
  if (!(time.value() > 0) || known.task.params == 0) return;
  (device.is_cpu() ? cpu_ : gpus_[static_cast<std::size_t>(device.gpu)]).see(params / time);
}

std::optional<units::Seconds> UpdateBoard::expected(Index params, Device device) const {
  const Rate& rate = device.is_cpu() ? cpu_ : gpus_[static_cast<std::size_t>(device.gpu)];
  if (!rate.value) return std::nullopt;
  const units::Seconds kernel = params_of(params) / *rate.value;
  if (device.is_cpu()) return kernel;
  const Surroundings::Gpu& gpu = surroundings_.gpus[static_cast<std::size_t>(device.gpu)];
  const sched::UpdateCost& cost = known_.front().task.cost;
  return std::max({kernel, params_of(params) * cost.held() / gpu.h2d,
                   params_of(params) * cost.state / gpu.d2h});
}

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
// What the board counts and tells of the steps.
#include <fmt/format.h>

#include <algorithm>

#include "sched_starpu/update_board.hpp"

namespace dos::sched_starpu {
namespace {

units::Params params_of(Index count) {
  return units::Params(static_cast<double>(count));
}

void add(StepReport& sum, const StepReport& step) {
  sum.step = step.step;
  sum.planned_gpu += step.planned_gpu;
  sum.executed_gpu += step.executed_gpu;
  sum.total += step.total;
  sum.updates += step.updates;
  sum.moved += step.moved;
  sum.overdue += step.overdue;
  sum.sooner += step.sooner;
  sum.to_cpu += step.to_cpu;
  sum.to_gpu += step.to_gpu;
  sum.flushed += step.flushed;
  sum.waited += step.waited;
  sum.needed.resize(step.needed.size());
  for (std::size_t gpu = 0; gpu < step.needed.size(); ++gpu) {
    sum.needed[gpu].in += step.needed[gpu].in;
    sum.needed[gpu].out += step.needed[gpu].out;
  }
}

}  // namespace

void UpdateBoard::count_share(const Known& known, Device device, std::optional<MoveReason> reason) {
  const units::Params params = params_of(known.task.params);
  const Device planned = known.placed.device;
  ++current_.updates;
  if (!device.is_cpu()) current_.executed_gpu += params;
  if (device == planned) return;
  ++current_.moved;
  if (!reason) return;
  ++(*reason == MoveReason::kOverdue ? current_.overdue : current_.sooner);
  if (device.is_cpu()) current_.to_cpu += params;
  if (planned.is_cpu()) current_.to_gpu += params;
}

void UpdateBoard::count_traffic(Known& known, Index index, const Place& place) {
  const units::Params params = params_of(known.task.params);
  const sched::UpdateCost& cost = known.task.cost;
  const auto move = [&](Index gpu, units::BytesPerParam in, units::BytesPerParam out) {
    Traffic& traffic = current_.needed[static_cast<std::size_t>(gpu)];
    traffic.in += params * in;
    traffic.out += params * out;
  };
  const Index gpu = place.device.gpu;
  const units::BytesPerParam none{0};
  const bool is_here = known.home >= 0 && known.home == gpu;
  if (known.home >= 0 && !is_here) move(known.home, none, cost.state);
  if (gpu < 0)
    move(known.task.user >= 0 ? known.task.user : index % std::ssize(gpus_), cost.weight,
         cost.gradient);
  else
    move(gpu, is_here ? cost.host_gradient : cost.streamed_in(),
         place.is_resident ? cost.host_parameter : cost.streamed_out());
  known.home = place.is_resident ? gpu : -1;
}

void UpdateBoard::end_step() {
  if (std::ssize(last_) == kReportedSteps) last_.erase(last_.begin());
  last_.push_back(current_);
  add(all_, current_);
}

std::string UpdateBoard::rates_used() const {
  constexpr double kMega = 1e6;
  std::string text =
      fmt::format("; rates: {:.4g} Mparam/s a CPU worker", planned_with_.front().value() / kMega);
  for (std::size_t gpu = 0; uses_gpus_ && gpu < gpus_.size(); ++gpu)
    text += fmt::format(", {:.4g} device {}", planned_with_[gpu + 1].value() / kMega, gpu);
  if (problem_->rates.task_latency.value() > 0)
    text += fmt::format(", {:.3g} us each", problem_->rates.task_latency.value() / 1e-6);
  return text;
}

Report UpdateBoard::report() const {
  Report report{.plan = plan_ ? sched::describe(*plan_, *problem_) + rates_used() : "",
                .reason = plan_ ? plan_->reason : "",
                .obstacle = obstacle_,
                .steps = last_,
                .all = all_,
                .devices = {{.rate = cpu_.value(), .rate_is_measured = cpu_.is_measured()}}};
  if (current_.step > 0) add(report.all, current_);
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu)
    report.devices.push_back({.rate = gpus_[gpu].value(),
                              .rate_is_measured = gpus_[gpu].is_measured(),
                              .h2d = surroundings_.gpus[gpu].h2d,
                              .d2h = surroundings_.gpus[gpu].d2h,
                              .memory = surroundings_.gpus[gpu].memory});
  return report;
}

std::optional<StepReport> UpdateBoard::step_report(Index step) const {
  if (step == current_.step && step > 0) return current_;
  const auto found = std::ranges::find(last_, step, &StepReport::step);
  return found == last_.end() ? std::nullopt : std::optional(*found);
}

}  // namespace dos::sched_starpu

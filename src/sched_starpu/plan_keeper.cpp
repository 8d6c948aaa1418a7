// SPDX-License-Identifier: Apache-2.0
#include "sched_starpu/plan_keeper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sched/bound.hpp"
#include "sched/interleave.hpp"
#include "sched/policy_registry.hpp"

namespace dos::sched_starpu {

namespace {

/// A window that is asked for, as far as it leaves memory to the next forward, whose first tasks
/// run beside the last updates: StarPU takes no memory from a task that has part of its data.
Index fitting_window(sched::Problem problem, Index asked) {
  // What waits for the GPU has no claim on that memory.
  for (perfmodels::GpuRates& gpu : problem.rates.gpus) gpu.wait = units::Seconds(0);
  const units::Bytes slot =
      units::Params(static_cast<double>(problem.largest())) * problem.cost.held();
  for (Index gpu = 0; gpu < problem.gpus(); ++gpu) {
    const sched::StateMemory& memory = problem.memory[static_cast<std::size_t>(gpu)];
    const units::Bytes free = std::min(memory.update, memory.resident - memory.gradients);
    asked = std::min(asked, std::max(static_cast<Index>(free / slot),
                                     sched::useful_window(problem, gpu, problem.largest())));
  }
  return std::max<Index>(1, asked);
}

}  // namespace

PlanKeeper::PlanKeeper(std::string policy, sched::PolicyOptions options, const Tuning& tuning)
    : policy_(std::move(policy)), options_(std::move(options)), tuning_(tuning), trial_(tuning) {
  options_.validate();
}

bool PlanKeeper::may_be_tried() const {
  if (tuning_.trial_steps == 0 || !sched::find_policy(policy_).adapts || options_.share ||
      options_.stride)
    return false;
  const auto stays = [](const sched::Assignment& each) { return sched::is_resident(each); };
  return !std::ranges::all_of(plan_->assignments, &sched::is_on_cpu) &&
         std::ranges::none_of(plan_->assignments, stays);
}

units::Seconds PlanKeeper::least_on_cpu() const {
  return problem_->total() / sched::cpu_rate(problem_->rates);
}

void PlanKeeper::begin_step(const DeviceRates& rates, const std::vector<Index>& homes,
                            const StepTimes& last) {
  if (!rates.are_known()) {
    obstacle_ = "no update has run on every device yet, or its codelet cannot run on all of them";
    return;
  }
  // Until somebody has planned, that was the only obstacle.
  if (!problem_) obstacle_.clear();
  const bool is_another = problem_ && problem_->subgroups.size() != homes.size();
  if (is_another) trial_ = PlanTrial(tuning_);
  if (!problem_) trial_.see_first(last.step);
  if (std::exchange(is_by_plan_, false) && !is_another && last.updates.value() > 0 &&
      (trial_.is_on_cpu() || may_be_tried()))
    changes_side_ |= trial_.see(last, std::ranges::max(ends_), least_on_cpu());
  const bool is_another_forward = rates.forward() != std::exchange(forward_, rates.forward());
  replans_ = !problem_ || is_another || changes_side_ || is_another_forward ||
             rates.have_changed_since(problem_->rates);
  bool is_settled = true;
  for (std::size_t i = 0; i < homes.size(); ++i)
    is_settled &= homes[i] == goal(static_cast<Index>(i)).stays_on();
  due_ = replans_ || (plan_ && !is_settled);
  if (due_ || !is_settled) return;
  step_plan_ = plan_;
  step_ends_ = ends_;
  is_by_plan_ = plan_.has_value();
}

PlanOrder PlanKeeper::order(sched::Problem problem, std::vector<Index> subgroups) {
  due_ = false;
  is_out_ = true;
  beside_backward_.clear();
  for (const sched::StateMemory& memory : problem.memory)
    beside_backward_.push_back(std::max(units::Bytes(0), memory.resident - memory.gradients));
  // By the model, which has the GPU wait for nobody, neither the other side of a trial is better
  // nor a window for updates that wait: the plan that holds must not be kept.
  const bool has_same =
      problem_ && problem_->subgroups.size() == subgroups.size() &&
      !std::exchange(changes_side_, false) && problem_->forward == problem.forward &&
      std::ranges::equal(problem_->rates.gpus, problem.rates.gpus, {}, &perfmodels::GpuRates::wait,
                         &perfmodels::GpuRates::wait);
  sched::PolicyOptions options = options_;
  if (options.window) options.window = fitting_window(problem, *options.window);
  if (trial_.is_on_cpu()) options.share = 0;
  return {.policy = policy_,
          .options = std::move(options),
          .problem = std::move(problem),
          .subgroups = std::move(subgroups),
          .current = has_same ? plan_ : std::nullopt,
          .replans = replans_,
          .tuning = tuning_};
}

void PlanKeeper::adopt(PlanOutcome outcome) {
  is_out_ = false;
  is_by_plan_ = false;
  positions_.resize(outcome.order.subgroups.size());
  for (std::size_t i = 0; i < positions_.size(); ++i)
    positions_[static_cast<std::size_t>(outcome.order.subgroups[i])] = static_cast<Index>(i);
  problem_ = std::move(outcome.order.problem);
  plan_ = std::move(outcome.plan);
  ends_ = std::move(outcome.ends);
  step_plan_ = std::move(outcome.step);
  step_ends_ = std::move(outcome.step_ends);
  obstacle_ = std::move(outcome.obstacle);
  is_short_ = outcome.is_short;
  limits_.clear();
  for (Index gpu = 0; plan_ && gpu < problem_->gpus(); ++gpu)
    limits_.push_back(limits_of_memory(gpu));
}

GpuWindow::Limits PlanKeeper::limits_of_memory(Index gpu) const {
  GpuWindow::Limits limits{.arrivals = sched::arrivals_at_once(*problem_, gpu), .largest = 0};
  const sched::StateMemory& memory = problem_->memory[static_cast<std::size_t>(gpu)];
  units::Bytes room = memory.update;
  units::Bytes slot{0};
  for (Index i = 0; i < std::ssize(plan_->assignments); ++i) {
    const Place place = place_of(plan_->assignments[static_cast<std::size_t>(i)]);
    if (place.device.gpu != gpu) continue;
    if (place.is_resident) {
      room -= problem_->held_bytes(i);
      continue;
    }
    slot = std::max(slot, problem_->streamed_bytes(i, gpu));
    limits.largest =
        std::max(limits.largest, problem_->subgroups[static_cast<std::size_t>(i)].params);
  }
  if (slot.value() > 0) {
    limits.buffers = problem_->cost.state_buffers;
    const auto fitting = [&](units::Bytes bytes) {
      return static_cast<Index>(std::floor(bytes / slot * static_cast<double>(limits.buffers)));
    };
    limits.slots = std::max<Index>(1, fitting(room) / limits.buffers);
    const auto beside = [&](units::Bytes resident) {
      const Index fits = fitting(room - memory.update + resident) / limits.buffers;
      return std::clamp<Index>(fits, 0, limits.slots);
    };
    // Where that is next to none, gradients that have left give some.
    limits.beside = std::max(beside(beside_backward_[static_cast<std::size_t>(gpu)]),
                             std::min(tuning_.least_beside, beside(memory.resident)));
    // More than are at work would only be allocated, once.
    const Index window = plan_->window[static_cast<std::size_t>(gpu)];
    limits.spare = std::clamp<Index>(fitting(room + memory.reserve) - limits.slots * limits.buffers,
                                     0, window * limits.buffers);
  } else {
    const sched::UpdateCost& cost = problem_->cost;
    const units::Params guest =
        std::max(room, units::Bytes(0)) / (cost.held() + cost.weight + cost.gradient);
    limits.largest = static_cast<Index>(std::min(guest, problem_->total()).value());
  }
  return limits;
}

Place PlanKeeper::place_in(const std::optional<sched::Plan>& plan, Index subgroup) const {
  if (!plan || subgroup >= std::ssize(positions_)) return {};
  const Index position = positions_[static_cast<std::size_t>(subgroup)];
  return place_of(plan->assignments[static_cast<std::size_t>(position)]);
}

GpuWindow::Limits PlanKeeper::limits(Index gpu) const {
  const auto place = static_cast<std::size_t>(gpu);
  GpuWindow::Limits limits = limits_.empty() ? GpuWindow::Limits{} : limits_[place];
  if (step_plan_) limits.window = std::max<Index>(1, step_plan_->window[place]);
  limits.residents = tuning_.residents_at_once;
  return limits;
}

Index PlanKeeper::gradients_ahead(Index workers) const {
  return problem_ ? sched::gradients_ahead(*problem_, workers) : tuning_.rounds_ahead * workers;
}

std::string PlanKeeper::in_words() const {
  if (!plan_) return "";
  const auto mega = [](units::ParamsPerSecond rate) {
    return rate / units::gparams_per_second(1e-3);
  };
  const perfmodels::Rates& rates = problem_->rates;
  std::string text = sched::describe(*plan_, *problem_) +
                     fmt::format("; rates: {:.4g} Mparam/s a CPU worker", mega(rates.cpu_worker));
  for (std::size_t gpu = 0; sched::find_policy(policy_).uses_gpus && gpu < rates.gpus.size(); ++gpu)
    text += fmt::format(", {:.4g} device {}", mega(rates.gpus[gpu].update), gpu);
  if (rates.task_latency.value() > 0)
    text += fmt::format(", {:.3g} us each", rates.task_latency / units::microseconds(1));
  const std::string trial = trial_.in_words();
  return trial.empty() ? text : text + "; " + trial;
}

}  // namespace dos::sched_starpu

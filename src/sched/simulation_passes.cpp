// SPDX-License-Identifier: Apache-2.0
// Forward and backward beside the update.
#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "sched/simulation.hpp"
#include "sched/step_replay.hpp"

namespace dos::sched {
namespace {

/// Of two plans whose forward ends at once the better one is that whose update does first: the next
/// forward may take less than the last. One that ends so much of its time later has to gain more.
constexpr double kOfTheUpdate = 1.0 / 64;

std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

/// In which the busiest tier that only keeps states gives them all and takes them back.
units::Seconds busiest_tier(const Problem& problem, const Plan& plan) {
  units::Seconds longest{0};
  for (Index tier = problem.gpus(); tier < problem.tiers(); ++tier) {
    units::Bytes states{0};
    for (std::size_t i = 0; i < plan.assignments.size(); ++i)
      if (plan.assignments[i].home == tier) states += problem.away_bytes(static_cast<Index>(i));
    const perfmodels::LinkRates link = problem.link_of(tier);
    const units::Seconds out = states / link.out;
    const units::Seconds in = states / link.in;
    longest = std::max({longest, out, in, 2 * states / link.both});
    if (link.half_duplex) longest = std::max(longest, out + in);
  }
  return longest;
}

}  // namespace

void Simulation::begin_passes() {
  const std::size_t depths = passes_->depths.size();
  require(!plan_.execution.lockstep, "updates run beside forward and backward");
  require(passes_->ahead.empty() || passes_->ahead.size() == problem_.subgroups.size(),
          "it is known which updates go ahead");
  require(problem_.homes.empty() || passes_->backward_is_over,
          "residents come while no update goes ahead");
  progress_.next.assign(at(computers()), passes_->backward_is_over ? depths : 0);
  progress_.backward_left.assign(depths, computers());
  progress_.depths_left = std::ssize(passes_->depths);
  progress_.weights_left.assign(depths, 0);
  progress_.released.assign(problem_.subgroups.size(), false);
  for (Index i = 0; i < std::ssize(problem_.subgroups); ++i) {
    require(depth_of(i) < depths, "depths are those of the passes");
    ++progress_.weights_left[depth_of(i)];
  }
  progress_.passes_left =
      static_cast<Index>((passes_->backward_is_over ? 1 : 2) * depths) * computers();
  unfinished_ += progress_.passes_left;
  if (passes_->backward_is_over) return;
  // Nothing is there before backward brings it.
  gradient_here_.assign(problem_.subgroups.size(), false);
  cpu_order_.clear();
  gradients_requested_ = 0;
  for (Gpu& gpu : gpus_) gpu.order.clear();
  // Slots were filled beside the forward pass before.
  while (const std::optional<Index> subgroup = grant_slot()) departs_[at(*subgroup)] = false;
}

/// The order of slots (docs/adr/0067-slots-follow-gradients.md). Pre: some wait for one.
std::deque<Index>::const_iterator Simulation::next_to_pass() const {
  const bool are_due_by_turns =
      passes_ != nullptr && !passes_->ahead.empty() && passes_->ahead[at(passing_.front())];
  if (!are_due_by_turns) return passing_.begin();
  const auto due = std::ranges::find_if(
      passing_, [&](Index subgroup) { return progress_.released[at(subgroup)]; });
  return due != passing_.end() ? due : std::prev(passing_.end());
}

std::size_t Simulation::depth_of(Index subgroup) const {
  return at(problem_.subgroups[at(subgroup)].depth);
}

/// The next of backward from the last depth on, then of forward.
void Simulation::start_pass(Index g) {
  const std::size_t depths = passes_->depths.size();
  const std::size_t next = progress_.next[at(g)];
  if (next == 2 * depths) return;
  const bool is_forward = next >= depths;
  const std::size_t depth = is_forward ? next - depths : depths - 1 - next;
  if (is_forward && progress_.weights_left[depth] > 0) return;
  const DepthPasses& work = passes_->depths[depth];
  start(passes_of(g), Work::kPass, /*subgroup=*/-1,
        (is_forward ? work.forward : work.backward).value(), 0);
}

void Simulation::finish_pass(Index g) {
  const std::size_t depths = passes_->depths.size();
  const std::size_t done = progress_.next[at(g)]++;
  passes_of(g).busy = false;
  --unfinished_;
  --progress_.passes_left;
  if (progress_.passes_left == 0) progress_.end = now_;
  if (done >= depths) return;
  const std::size_t depth = depths - 1 - done;
  if (--progress_.backward_left[depth] > 0) return;
  const bool is_last = --progress_.depths_left == 0;
  for (Index i = 0; i < std::ssize(problem_.subgroups); ++i) {
    if (depth_of(i) == depth) complete_gradient(i);
    const bool goes_ahead = !passes_->ahead.empty() && passes_->ahead[at(i)];
    if (goes_ahead ? depth_of(i) == depth : is_last) release(i);
  }
}

void Simulation::complete_gradient(Index subgroup) {
  const bool leaves = is_on_cpu(assignment(subgroup)) && reader_of(subgroup) >= 0;
  if (leaves && problem_.cost.gradient.value() > 0)
    links_[at(reader_of(subgroup))].gradients.push_back(subgroup);
  else
    gradient_here_[at(subgroup)] = true;
}

/// Once all of it is there.
void Simulation::let_cpu_have(Index subgroup) {
  if (progress_.released[at(subgroup)] && gradient_here_[at(subgroup)] && !departs_[at(subgroup)])
    late_.push(subgroup);
}

/// An update that waits for nothing but its gradient, and its states.
void Simulation::release(Index subgroup) {
  progress_.released[at(subgroup)] = true;
  if (is_on_cpu(assignment(subgroup))) return let_cpu_have(subgroup);
  Gpu& gpu = gpus_[at(assignment(subgroup).device)];
  const auto place = [&](std::size_t from) {
    return gpu.order.begin() + static_cast<std::ptrdiff_t>(from);
  };
  if (resident_needs_nothing(subgroup)) {
    gpu.order.insert(place(at(gpu.arrived)), subgroup);
    ++gpu.arrived;
    ++gpu.next_in;
    return;
  }
  gpu.order.insert(std::lower_bound(place(gpu.next_in), gpu.order.end(), subgroup), subgroup);
}

units::Seconds Simulation::run_step() {
  start_everything();
  while (unfinished_ > 0 && progress_.end == 0) step();
  return units::Seconds(progress_.end);
}

std::optional<units::Seconds> Simulation::run_forward_until(double limit) {
  start_everything();
  double updated = 0;
  while (unfinished_ > 0) {
    if (now_ > limit) return std::nullopt;
    step();
    if (updated == 0 && unfinished_ == progress_.passes_left) updated = now_;
  }
  return units::Seconds(progress_.end + kOfTheUpdate * updated);
}

units::Seconds replay_step(const Problem& problem, const Plan& plan, const StepPasses& passes) {
  expect_plays(problem, plan);
  return std::max(busiest_tier(problem, plan),
                  Simulation(problem, plan, /*record=*/false, &passes).run_step());
}

std::optional<units::Seconds> planned_end_by(const Problem& problem, const Plan& plan,
                                             units::Seconds limit) {
  if (problem.forward.empty() || plan.execution.lockstep || lives_behind_host(problem, plan))
    return update_end_by(problem, plan, limit);
  expect_plays(problem, plan);
  StepPasses passes{.depths = {}, .ahead = {}, .backward_is_over = true};
  for (const units::Seconds forward : problem.forward)
    passes.depths.push_back({.forward = forward, .backward = units::Seconds(0)});
  const std::optional<units::Seconds> end =
      Simulation(problem, plan, /*record=*/false, &passes).run_forward_until(limit.value());
  return end && *end > limit ? std::nullopt : end;
}

units::Seconds planned_end(const Problem& problem, const Plan& plan) {
  return *planned_end_by(problem, plan, units::Seconds(std::numeric_limits<double>::infinity()));
}

}  // namespace dos::sched

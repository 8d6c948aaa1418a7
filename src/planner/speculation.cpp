// SPDX-License-Identifier: Apache-2.0
#include "planner/speculation.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "planner/homes.hpp"
#include "planner/planner.hpp"
#include "shape/home_split.hpp"
#include "shape/second_banks.hpp"

namespace dos::planner {
namespace {

/// Whole steps count gradients that leave a GPU; where ranks add them in host memory backward has
/// sent them.
sched::Problem with_gradients(sched::Problem problem) {
  if (!(problem.cost.host_gradient.value() > 0)) problem.cost.gradient = problem.cost.weight;
  return problem;
}

/// By subgroup. What disks have, and what a GPU keeps for good, waits for the norm.
std::vector<bool> choose_ahead(const Request& request, const Forecast& result) {
  const sched::Problem& problem = result.problem;
  const bool takes_what_is_left = request.settings.speculation == Speculation::kAuto;
  std::vector<bool> ahead(problem.subgroups.size());
  if (takes_what_is_left && sched::lives_behind_host(problem, result.plan)) return ahead;
  std::vector<std::size_t> candidates;
  std::vector<Index> depths;
  for (std::size_t i = 0; i < ahead.size(); ++i) {
    if (problem.subgroups[i].kept_on >= 0 || problem.only_keeps(result.plan.assignments[i].home))
      continue;
    candidates.push_back(i);
    depths.push_back(problem.subgroups[i].depth);
  }
  std::vector<std::size_t> ordered;
  std::vector<double> banks;
  for (const std::size_t place : shape::by_completion(depths)) {
    ordered.push_back(candidates[place]);
    banks.push_back(problem.state_bytes(static_cast<Index>(ordered.back())).value());
  }
  if (takes_what_is_left) {
    const units::Bytes left = (result.host.available - result.host.total()) /
                              static_cast<double>(result.layout.ranks_per_node);
    ordered.resize(shape::banks_that_fit(banks, shape::memory_for_states(0, left.value())));
  }
  for (const std::size_t i : ordered) ahead[i] = true;
  return ahead;
}

}  // namespace

sched::Bound step_bound(sched::Problem problem, units::Seconds passes) {
  problem.cost.banks = 1;
  return sched::lower_bound(with_gradients(std::move(problem)), {.passes = passes});
}

bool are_hidden(const sched::Problem& problem, const sched::Plan& plan) {
  return problem.gpus() > 0 && !(plan.overflow > units::Bytes(0)) &&
         !sched::lives_behind_host(problem, plan);
}

units::Seconds step_beside(const sched::Problem& problem, const sched::Plan& plan,
                           const sched::StepPasses& passes, const sched::Bound& bound) {
  return std::max(bound.time, sched::replay_step(with_gradients(problem), plan, passes));
}

bool may_go_ahead(const Request& request) {
  const PlanSettings& settings = request.settings;
  if (settings.speculation == Speculation::kOff) return false;
  const bool is_asked_for = settings.speculation == Speculation::kOn;
  expect(!is_asked_for || !settings.fp32,
         "optim.speculate = on needs train.precision=bf16: forward reads FP32 parameters in place");
  expect(!is_asked_for || !settings.policy.published,
         "optim.speculate = on: in the published code updates wait for the norm: leave it or "
         "sched.published out");
  if (settings.fp32 || settings.policy.published) return false;
  return is_asked_for || request.machine.gpus.value > 0;
}

void let_go_ahead(const Request& request, const Forecast& waiting, const sched::Problem& roomy,
                  Forecast& result) {
  const sched::Problem& problem = result.problem;
  const std::vector<bool> ahead = choose_ahead(request, result);
  const auto count = std::ranges::count(ahead, true);
  if (count == 0) return;
  result.ahead.waiting = waiting.step;
  if (are_hidden(problem, result.plan)) {
    result.phases = phase_times(request.model, request.machine, result.layout, request.settings,
                                /*flushed=*/units::Params(0), result.plan.time,
                                traffic_beside_activations(request, result));
    sched::StepPasses passes{.depths = depth_passes(request.model, result.phases), .ahead = {}};
    // Forward of the first layers begins beside the last updates in either.
    if (are_hidden(waiting.problem, waiting.plan))
      result.ahead.waiting =
          sched::replay_step(with_gradients(waiting.problem), waiting.plan, passes);
    passes.ahead = ahead;
    result.ahead.bound = step_bound(roomy, result.phases.forward + result.phases.backward);
    result.step = step_beside(problem, result.plan, passes, result.ahead.bound);
  }
  result.ahead.step = result.step;
  result.ahead.subgroups = count;
  for (std::size_t i = 0; i < ahead.size(); ++i) {
    if (!ahead[i]) continue;
    result.ahead.params += units::Params(static_cast<double>(problem.subgroups[i].params));
    result.ahead.banks += problem.state_bytes(static_cast<Index>(i));
  }
  result.host.items.push_back(
      {MemoryCategory::kSecondBanks,
       result.ahead.banks * static_cast<double>(result.layout.ranks_per_node)});
}

}  // namespace dos::planner

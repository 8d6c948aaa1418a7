// SPDX-License-Identifier: Apache-2.0
#include "planner/ahead_forecast.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "planner/planner.hpp"
#include "planner/tier_uses.hpp"
#include "shape/home_split.hpp"
#include "shape/second_banks.hpp"

namespace dos::planner {
namespace {

/// By subgroup. What disks have, and what a GPU keeps for good, waits for the norm.
std::vector<bool> choose_ahead(const Request& request, const Forecast& result) {
  const sched::Problem& problem = result.problem;
  const bool takes_what_is_left = request.settings.speculation == SpeculationChoice::kAuto;
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

bool may_go_ahead(const Request& request) {
  const PlanSettings& settings = request.settings;
  if (settings.speculation == SpeculationChoice::kOff) return false;
  const bool is_asked_for = settings.speculation == SpeculationChoice::kOn;
  expect(!is_asked_for || !settings.fp32,
         "optim.speculate = on needs train.precision=bf16: forward reads FP32 parameters in place");
  expect(
      !is_asked_for || settings.clips,
      "optim.speculate = on, but with optim.clip = 0 no update waits for the norm: leave it out");
  expect(!is_asked_for || !settings.policy.published,
         "optim.speculate = on: in the published code updates wait for the norm: leave it or "
         "sched.published out");
  if (!settings.clips || settings.fp32 || settings.policy.published) return false;
  return is_asked_for || request.machine.gpus.value > 0;
}

std::vector<bool> let_go_ahead(const Request& request, const Forecast& waiting, Forecast& result) {
  const sched::Problem& problem = result.problem;
  std::vector<bool> ahead = choose_ahead(request, result);
  result.ahead.subgroups = std::ranges::count(ahead, true);
  if (result.ahead.subgroups == 0) return {};
  result.ahead.waiting = waiting.step;
  for (std::size_t i = 0; i < ahead.size(); ++i) {
    if (!ahead[i]) continue;
    result.ahead.params += units::Params(static_cast<double>(problem.subgroups[i].params));
    result.ahead.banks += problem.state_bytes(static_cast<Index>(i));
  }
  result.host.items.push_back(
      {MemoryCategory::kSecondBanks,
       result.ahead.banks * static_cast<double>(result.layout.ranks_per_node)});
  return ahead;
}

}  // namespace dos::planner

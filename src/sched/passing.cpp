// SPDX-License-Identifier: Apache-2.0
#include "sched/passing.hpp"

#include <algorithm>
#include <utility>

namespace dos::sched {

bool may_pass(const Problem& problem) {
  return std::ranges::any_of(
      problem.memory, [](const StateMemory& gpu) { return gpu.passing.bytes > units::Bytes(0); });
}

Problem with_passing_weights(Problem problem) {
  for (StateMemory& gpu : problem.memory) {
    const PassingWeights passing = std::exchange(gpu.passing, {});
    if (!(passing.bytes > units::Bytes(0))) continue;
    gpu.update = passing.update;
    gpu.resident = passing.resident;
  }
  return problem;
}

void count_refetch(const Problem& problem, double waiting, Plan& plan) {
  plan.overflow = units::Bytes(0);
  plan.refetch = units::Seconds(0);
  for (std::size_t gpu = 0; gpu < problem.memory.size(); ++gpu) {
    const StateMemory& memory = problem.memory[gpu];
    const PassingWeights& passing = memory.passing;
    if (!(passing.bytes > units::Bytes(0))) continue;
    const units::Bytes model = passing.bytes + memory.gradients * waiting;
    const units::Bytes lacking = std::max({units::Bytes(0), model - passing.resident,
                                           model + plan.window_memory[gpu] - passing.update});
    const perfmodels::GpuRates& rates = problem.rates.gpus[gpu];
    plan.overflow = std::max(plan.overflow, lacking);
    plan.refetch = std::max(plan.refetch, lacking / rates.h2d + lacking / rates.d2h);
  }
}

}  // namespace dos::sched

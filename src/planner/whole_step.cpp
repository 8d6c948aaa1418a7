// SPDX-License-Identifier: Apache-2.0
#include "planner/whole_step.hpp"

#include <algorithm>
#include <utility>

#include "planner/homes.hpp"
#include "planner/phases.hpp"
#include "planner/planner.hpp"
#include "sched/gradients.hpp"

namespace dos::planner {
namespace {

/// Whole steps count gradients that leave a GPU; where ranks add them in host memory backward has
/// sent them.
sched::Problem with_gradients(sched::Problem problem) {
  if (!(problem.cost.host_gradient.value() > 0)) problem.cost.gradient = problem.cost.weight;
  return problem;
}

/// Forward and backward after an update of `update`, whose gradients leave in what is played unless
/// ranks add them.
PhaseTimes phases_after(const Request& request, const Forecast& result, units::Seconds update,
                        const DiskTraffic& disks = {}) {
  const bool sums = result.problem.cost.host_gradient.value() > 0;
  return phase_times(request.model, request.machine, result.layout, request.settings,
                     sums ? result.flushed : units::Params(0), update, disks);
}

units::Seconds waits_of(const PhaseTimes& phases) {
  return phases.exposed + phases.moving;
}

/// What GPUs compute, by depth. While they wait for other ranks or for activations, these keep
/// links and DRAM busy that updates need.
std::vector<sched::DepthPasses> computed(const Request& request, const PhaseTimes& phases) {
  const units::Seconds in_backward = waits_of(phases) - phases.forward_waits;
  return depth_passes(request.model, {.forward = phases.forward - phases.forward_waits,
                                      .backward = phases.backward - in_backward});
}

}  // namespace

sched::Bound step_bound(sched::Problem problem, units::Seconds passes) {
  problem.cost.banks = 1;
  return sched::lower_bound(with_gradients(std::move(problem)), {.passes = passes});
}

std::vector<units::Seconds> forward_beside(const sched::Problem& problem,
                                           const std::vector<sched::DepthPasses>& depths) {
  const units::Params largest(static_cast<double>(problem.largest()));
  const units::Bytes least = largest * problem.cost.held() * sched::kUpdatesAtWork;
  std::vector<units::Seconds> forward;
  for (const sched::StateMemory& gpu : problem.memory)
    if (std::min(gpu.update, gpu.resident - gpu.gradients) < least) return forward;
  for (const sched::DepthPasses& depth : depths) forward.push_back(depth.forward);
  return forward;
}

bool runs_beside(const sched::Problem& problem, const sched::Plan& plan) {
  return problem.gpus() > 0 && !(plan.overflow > units::Bytes(0)) &&
         !sched::lives_behind_host(problem, plan);
}

units::Seconds step_beside(const sched::Problem& problem, const sched::Plan& plan,
                           const sched::StepPasses& passes, units::Seconds least) {
  return std::max(least, sched::replay_step(with_gradients(problem), plan, passes));
}

std::vector<units::Seconds> forward_of(const Request& request, const Forecast& result) {
  if (request.settings.policy.published || result.problem.gpus() == 0) return {};
  PhaseTimes phases = phases_after(request, result, /*update=*/units::Seconds(0));
  // What goes through host memory for it, the update waits for.
  if (adds_on_host(result.layout, request.settings)) phases.forward -= phases.gathers;
  if (!(phases.forward > phases.forward_waits)) return {};
  return forward_beside(result.problem, computed(request, phases));
}

void play_step(const Request& request, const sched::Problem& roomy, std::vector<bool> ahead,
               Forecast& result) {
  const sched::Plan& plan = result.plan;
  if (request.settings.policy.published || !runs_beside(result.problem, plan)) {
    result.step = result.phases.forward + result.phases.backward + plan.time + plan.refetch;
  } else {
    const DiskTraffic disks = traffic_beside_activations(request, result);
    PhaseTimes& phases = result.phases;
    phases = phases_after(request, result, plan.time, disks);
    const units::Seconds waits = waits_of(phases);
    result.step_bound = step_bound(roomy, phases.forward + phases.backward);
    const units::Seconds played = step_beside(
        result.problem, plan, {.depths = computed(request, phases), .ahead = std::move(ahead)},
        result.step_bound.time - waits);
    // Ranks send what is updated; where forward begins beside the update, they have no longer.
    const PhaseTimes sending = phases_after(request, result, /*update=*/units::Seconds(0), disks);
    // What goes through host memory takes from the update what that takes of DRAM and links.
    const bool shares = adds_on_host(result.layout, request.settings);
    const units::Seconds in_turn = shares ? phases.gathers + plan.time : units::Seconds(0);
    result.step =
        std::max({played + waits, sending.forward + sending.backward, phases.backward + in_turn});
  }
  result.ahead.step = result.step;
}

}  // namespace dos::planner

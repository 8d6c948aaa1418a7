// SPDX-License-Identifier: Apache-2.0
#include "planner/whole_step.hpp"

#include <algorithm>
#include <utility>

#include "planner/phases.hpp"
#include "planner/planner.hpp"
#include "planner/tier_uses.hpp"
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
                        const DiskLoad& disks = {}) {
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

/// Of the parameters, what `counts` accepts by subgroup, 0 to 1.
template <class Counts>
double part_of(const sched::Problem& problem, const Counts& counts) {
  units::Params sum{0};
  for (std::size_t i = 0; i < problem.subgroups.size(); ++i)
    if (counts(i)) sum += units::Params(static_cast<double>(problem.subgroups[i].params));
  return sum / problem.total();
}

/// What link and DRAM have to do from the end of backward to the end of forward, one after the
/// other: what forward moves besides, and updates that wait for the norm.
units::Seconds in_turn(const Request& request, const Forecast& result,
                       const std::vector<bool>& ahead) {
  const sched::Problem& problem = result.problem;
  const sched::Plan& plan = result.plan;
  const PhaseTimes& phases = result.phases;
  const auto waits = [&](std::size_t i) { return ahead.empty() || !ahead[i]; };
  units::Seconds longest{0};
  // What ranks gather through host memory takes of DRAM and links what the update does.
  if (adds_on_host(result.layout, request.settings))
    longest = phases.gathers + plan.time * part_of(problem, waits);
  for (Index gpu = 0; gpu < problem.gpus() && phases.stores > units::Seconds(0); ++gpu) {
    const double streamed = part_of(problem, [&](std::size_t i) {
      return waits(i) && sched::is_streamed(plan.assignments[i]) &&
             plan.assignments[i].device == gpu;
    });
    const units::BytesPerSecond out = problem.rates.gpus[static_cast<std::size_t>(gpu)].d2h;
    longest = std::max(
        longest, phases.stores + problem.total() * streamed * problem.cost.streamed_out() / out);
  }
  return longest;
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
  return !(plan.overflow > units::Bytes(0)) &&
         (problem.gpus() > 0 || sched::lives_behind_host(problem, plan));
}

std::vector<bool> without_norm(const sched::Problem& problem, const sched::Plan& plan) {
  const bool are_away = sched::lives_behind_host(problem, plan);
  std::vector<bool> ahead;
  for (const sched::Assignment& each : plan.assignments)
    ahead.push_back(!are_away || problem.only_keeps(each.home));
  return ahead;
}

units::Seconds step_beside(const sched::Problem& problem, const sched::Plan& plan,
                           const sched::StepPasses& passes, units::Seconds least) {
  return std::max(least, sched::replay_step(with_gradients(problem), plan, passes));
}

std::vector<units::Seconds> forward_of(const Request& request, const Forecast& result) {
  if (request.settings.policy.published || result.problem.gpus() == 0) return {};
  PhaseTimes phases = phases_after(request, result, /*update=*/units::Seconds(0));
  // What goes through host memory for it, waited for or not, the update waits for.
  if (adds_on_host(result.layout, request.settings) && phases.gathers > units::Seconds(0)) {
    if (!(phases.forward > phases.gathers)) return {};
    phases.forward -= phases.gathers;
    phases.forward_waits = units::Seconds(0);
  }
  return forward_beside(result.problem, computed(request, phases));
}

void play_step(const Request& request, const sched::Problem& roomy, std::vector<bool> ahead,
               Forecast& result) {
  const sched::Plan& plan = result.plan;
  result.updates_beside = !request.settings.policy.published && runs_beside(result.problem, plan);
  if (!result.updates_beside) {
    result.step = result.phases.forward + result.phases.backward + plan.time + plan.refetch;
  } else {
    const DiskLoad disks = traffic_beside_activations(request, result);
    PhaseTimes& phases = result.phases;
    phases = phases_after(request, result, plan.time, disks);
    const units::Seconds waits = waits_of(phases);
    units::Seconds least{0};
    if (result.problem.gpus() > 0) {
      result.step_bound = step_bound(roomy, phases.forward + phases.backward);
      least = result.step_bound.time - waits;
    }
    const units::Seconds carried = phases.backward + in_turn(request, result, ahead);
    const units::Seconds played =
        step_beside(result.problem, plan,
                    {.depths = computed(request, phases), .ahead = std::move(ahead)}, least);
    // Ranks send what is updated; where forward begins beside the update, they have no longer.
    const PhaseTimes sending = phases_after(request, result, /*update=*/units::Seconds(0), disks);
    const BusyDisk disk = busiest_disk(request.machine, result);
    if (!result.step_bound.binding.empty() && disk.busy > result.step_bound.time) {
      result.step_bound.time = disk.busy;
      result.step_bound.binding = disk.name;
    }
    result.step =
        std::max({played + waits, sending.forward + sending.backward, carried, disk.busy});
  }
  if (result.ahead.subgroups > 0) result.ahead.step = result.step;
}

}  // namespace dos::planner

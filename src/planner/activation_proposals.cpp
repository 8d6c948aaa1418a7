// SPDX-License-Identifier: Apache-2.0
#include "planner/activation_proposals.hpp"

#include <algorithm>

#include "planner/activation_choice.hpp"
#include "planner/tier_uses.hpp"

namespace dos::planner {
namespace {

using shape::ActivationPlan;
using units::Bytes;

/// Sizes of device memory that are tried.
constexpr Index kSizes = 8;

double real(Index value) {
  return static_cast<double>(value);
}

/// Host memory is what states leave, or could leave where disks take them.
ActivationLimits limits_of(const Request& request, const Forecast& least, const PassModel& passes) {
  const Deployment& layout = least.layout;
  const double devices = real(layout.ranks_per_node * layout.devices_per_rank);
  const Bytes none{0};
  ActivationLimits limits;
  limits.least = activation_need(passes, shape::kRecomputeAll).device;
  std::vector<Bytes> free{least.host.available - least.host.total()};
  if (!request.machine.tiers.empty())
    free.push_back(free.front() + least.host.of(MemoryCategory::kStatesWithParameters));
  for (const Bytes each : free) limits.host.push_back(std::max(none, each) / devices);
  if (least.problem.gpus() > 0) {
    PlanSettings settings = request.settings;
    settings.activations = shape::kRecomputeAll;
    const MemoryUse peak =
        gpu_peak(request.model, layout, settings, least.gpu.available, {.gradients = 0});
    limits.most = peak.available - peak.total() + limits.least;
  } else {
    limits.most = limits.host.back() + limits.least;
    limits.host = {none};
  }
  if (!request.machine.tiers.empty())
    limits.disk = std::max(none, room_for_activations(request.machine, least)) / devices;
  return limits;
}

}  // namespace

void add_for_sizes(const ActivationLimits& limits, const PassModel& passes,
                   std::vector<ActivationPlan>& plans) {
  for (Index size = 0; size <= kSizes; ++size) {
    const Bytes device = limits.least + (limits.most - limits.least) * (real(size) / real(kSizes));
    for (const Bytes host : limits.host) {
      const auto choice = choose_activations(passes, {device, host, limits.disk});
      if (choice && std::ranges::find(plans, choice->plan) == plans.end())
        plans.push_back(choice->plan);
    }
  }
}

std::vector<ActivationPlan> named_activations(const Request& request) {
  std::vector<ActivationPlan> plans{{}, {.selective = ActivationPlan::kAll}, shape::kRecomputeAll};
  if (request.machine.gpus.value > 0) plans.push_back({.hosted = ActivationPlan::kAll});
  if (!request.machine.tiers.empty()) plans.push_back({.moved = ActivationPlan::kAll});
  return plans;
}

std::vector<ActivationPlan> proposed_activations(const Request& request, const Forecast& least,
                                                 const PassModel& passes) {
  std::vector<ActivationPlan> plans = named_activations(request);
  add_for_sizes(limits_of(request, least, passes), passes, plans);
  return plans;
}

}  // namespace dos::planner

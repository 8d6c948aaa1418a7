// SPDX-License-Identifier: Apache-2.0
#include "fit/update_times.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "config/plan_model.hpp"
#include "sched/policy_registry.hpp"
#include "shape/model.hpp"

namespace dos::fit {
namespace {

/// The machine as far as the run has it. Without disks for states there are no tiers.
void limit_machine(const train::Run& run, const Room& room, planner::Request& request) {
  auto& machine = request.machine;
  machine.gpus.value = room.model_devices() * request.ranks_per_node;
  for (const Room::Device& device : room.devices)
    if (device.runs_model)
      machine.gpu_memory.value =
          std::min(machine.gpu_memory.value, units::Bytes(static_cast<double>(device.bytes)));
  // What a run has beside the buffers that the planner counts.
  units::Bytes left(static_cast<double>(room.host_bytes));
  const planner::MemoryUse host = estimate_run(run, room).host;
  for (const MemoryCategory category :
       {MemoryCategory::kTokensAhead, MemoryCategory::kRuntime, MemoryCategory::kProgram,
        MemoryCategory::kCheckpoints, MemoryCategory::kWorkspace})
    left -= host.of(category);
  machine.dram_capacity.value =
      std::max(units::Bytes{0}, left) * static_cast<double>(request.ranks_per_node);
  if (run.config.disks().empty()) machine.tiers.clear();
}

}  // namespace

UpdateTimes::UpdateTimes(const train::Run& run, const Room& room) {
  const bool may_lack = room.model_devices() > 0 || !run.config.disks().empty();
  if (!may_lack || !room.measured.whole ||
      sched::own_policy(room.measured.whole->policy) == nullptr)
    return;
  planner::Request request = *room.measured.whole;
  limit_machine(run, room, request);
  request.model = shape::model_of("", run.model);
  request.ranks = run.share.ranks;
  request.micro_batch = run.config.train.batch;
  config::take_keys(run.config, request.settings);
  request.settings.chooses_activations = false;
  request_ = std::move(request);
  if (!with(shape::kRecomputeAll)) request_.reset();
}

units::Seconds UpdateTimes::of(const shape::ActivationPlan& plan) const {
  const std::optional<planner::Forecast> forecast = with(plan);
  return forecast ? forecast->plan.time + forecast->plan.refetch : units::Seconds{0};
}

units::Seconds UpdateTimes::added(const shape::ActivationPlan& plan) const {
  if (!request_) return units::Seconds{0};
  const std::optional<planner::Forecast> forecast = with(plan);
  if (!forecast) return units::Seconds{std::numeric_limits<double>::infinity()};
  return forecast->step - forecast->phases.forward - forecast->phases.backward;
}

std::optional<planner::Forecast> UpdateTimes::with(const shape::ActivationPlan& plan) const {
  if (!request_) return std::nullopt;
  planner::Request request = *request_;
  request.settings.activations = plan;
  if (request.machine.tiers.empty()) {
    // Blocks whose activations are on disks of their own leave the device as much as recomputed
    // ones, but for one more set of buffers.
    request.settings.activations.recomputed += plan.moved;
    request.settings.activations.moved = 0;
  }
  try {
    return planner::forecast(request);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace dos::fit

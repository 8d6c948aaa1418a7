// SPDX-License-Identifier: Apache-2.0
#include "fit/run_memory.hpp"

#include <algorithm>
#include <limits>

#include "fit/estimate.hpp"
#include "offload/home_plan.hpp"
#include "sched/policy_registry.hpp"

namespace dos::fit {
namespace {

planner::MemoryUse host_memory(const train::Run& run, const Room& room) {
  const config::TrainConfig& config = run.config;
  const shape::RunShape shape = config.run_shape(room.lane_workers());
  rt::MemoryBytes registered =
      estimate_training(run.model, shape, run.layout, config.parameter_types(), config.optimizer(),
                        room.worker_count(), config.train.run_ahead, run.share);
  const rt::MemoryBytes saved =
      offload::saved_memory(run.layout, train::plan_homes(run, room.workers));
  const rt::MemoryBytes banks = train::bank_bytes(run, run.ahead);
  for (const MemoryCategory category : kBufferCategories)
    registered[category] += banks[category] - saved[category];
  return host_use(registered,
                  estimate_unregistered(run, shape, room.workers,
                                        units::Bytes(static_cast<double>(registered.total()))),
                  room.host_bytes);
}

/// Bytes of the states of a subgroup, of the largest.
Index largest_states(const train::Run& run, const Room& room) {
  train::Run all_away = run;
  all_away.state_memory = 0;
  all_away.device_state_memory = {std::numeric_limits<Index>::max() / 2};
  return train::plan_homes(all_away, room.workers).slot_bytes;
}

/// Of what each device of the room keeps, in bytes; no more than it has for that.
std::vector<Index> kept_on_devices(const train::Run& run, const Room& room) {
  return train::plan_homes(run, room.workers)
      .memory_of_devices(run.layout, std::ssize(room.devices));
}

}  // namespace

bool RunMemory::fits() const {
  return host.fits() &&
         std::ranges::all_of(devices, [](const planner::MemoryUse& use) { return use.fits(); });
}

RunMemory estimate_as_is(const train::Run& run, const Room& room) {
  const config::TrainConfig& config = run.config;
  const shape::RunShape shape = config.run_shape(room.lane_workers());
  RunMemory memory{.host = host_memory(run, room), .devices = {}};
  const std::vector<Index> kept = kept_on_devices(run, room);
  for (std::size_t i = 0; i < room.devices.size(); ++i) {
    const Room::Device& device = room.devices[i];
    if (!device.runs_model) continue;
    planner::MemoryUse use =
        estimate_device(run.model, shape, run.layout, config.parameter_types(),
                        run.share.ownership(), config.train.accumulate, room.model_devices(),
                        units::Bytes(static_cast<double>(device.bytes)), room.weights_may_pass);
    if (kept[i] > 0)
      use.items.push_back({MemoryCategory::kStates, units::Bytes(static_cast<double>(kept[i]))});
    memory.devices.push_back(std::move(use));
  }
  return memory;
}

std::vector<Index> memory_for_states(const train::Run& run, const Room& room, double updates) {
  const sched::Policy* own = sched::own_policy(room.policy);
  const config::Keys::Sched& asked = run.config.sched;
  const bool says_how_much = asked.share >= 0 || asked.stride > 0;
  if (own == nullptr || !own->uses_gpus || !asked.resident || says_how_much) return {};
  train::Run empty = run;
  empty.device_state_memory.clear();
  const RunMemory memory = estimate_as_is(empty, room);
  empty.ahead.clear();
  const auto update = static_cast<double>(update_bytes(empty, room));
  // Updates that go ahead of the norm have a second bank.
  const double banks = run.config.optim.speculate == "off" ? 1 : 2;
  // What an update needs besides comes to the device, too.
  const double part = std::min(1.0, static_cast<double>(largest_states(run, room)) / update);
  std::vector<Index> bytes;
  std::size_t next = 0;
  for (const Room::Device& device : room.devices) {
    const auto all = static_cast<double>(device.bytes);
    const double left =
        device.runs_model ? planner::state_memory(memory.devices[next++]).resident.value() : all;
    const double free = left - updates * banks * update - sched::kMemoryReserve * all;
    bytes.push_back(static_cast<Index>(std::max(0.0, free * part)));
  }
  return bytes;
}

train::Run with_states_on_devices(const train::Run& run, const Room& room) {
  const bool is_decided = !run.config.disks().empty() || !run.device_state_memory.empty();
  if (is_decided || room.devices.empty() || estimate_as_is(run, room).host.fits()) return run;
  for (const double updates : {sched::kUpdatesBesideKept, sched::kLeastUpdatesBesideKept}) {
    train::Run kept = run;
    kept.device_state_memory = memory_for_states(run, room, updates);
    if (estimate_as_is(kept, room).host.fits()) return kept;
  }
  return run;
}

RunMemory estimate_run(const train::Run& run, const Room& room) {
  return estimate_as_is(with_states_on_devices(run, room), room);
}

}  // namespace dos::fit

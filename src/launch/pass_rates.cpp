// SPDX-License-Identifier: Apache-2.0
#include "launch/pass_rates.hpp"

#include <algorithm>
#include <system_error>

#include "base/error.hpp"
#include "base/log.hpp"
#include "launch/rank_weights.hpp"

namespace dos::launch {

void add_measured_rates(const std::filesystem::path& machines, const RankPlace& place,
                        const std::string& policy, bool says, fit::Room& room) {
  try {
    perfmodels::Host host = this_host();
    host.nvidia_gpus = place.visible_gpus;
    std::error_code ignored;
    if (!std::filesystem::exists(machines / (host.name + ".toml"), ignored)) return;
    perfmodels::Machine machine = perfmodels::find_machine("this", machines, host);
    room.measured.whole = planner::Request{.machine = machine,
                                           .model = {},
                                           .ranks_per_node = place.position.local_size,
                                           .policy = policy,
                                           .settings = {}};
    const bool on_cpu = room.model_devices() == 0;
    if (on_cpu) machine.gpus.value = 0;
    planner::Deployment layout;
    layout.ranks_per_node = place.position.local_size;
    const planner::PassRates rates = planner::pass_rates_of(machine, layout);
    // Of GPUs the file does not know how fast they train.
    if (on_cpu) room.measured.compute = rates.compute;
    if (rates.link) room.measured.link = rates.link;
    room.measured.disk = rates.disk;
    room.measured.dram = rates.dram;
    room.measured.machine = host.name + ".toml";
  } catch (const Error& error) {
    if (says) log::warn("{}: train.activations=auto assumes rates", error.what());
  }
}

units::Bytes disk_room(const config::TrainConfig& config, const RankPlace& place) {
  units::Bytes all{0};
  for (const offload::DiskPlace& disk : config.activation_disks()) {
    std::error_code error;
    const std::filesystem::space_info space = std::filesystem::space(disk.folder, error);
    // A folder that is not there is said when its space is reserved.
    if (error) return fit::Room().disk;
    units::Bytes room(static_cast<double>(space.available) /
                      static_cast<double>(place.position.local_size));
    if (disk.bytes) room = std::min(room, units::Bytes(static_cast<double>(*disk.bytes)));
    all += room;
  }
  return all;
}

}  // namespace dos::launch

// SPDX-License-Identifier: Apache-2.0
#include "launch/pass_rates.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "config/plan_model.hpp"
#include "fit/run_memory.hpp"
#include "launch/rank_weights.hpp"
#include "offload/disk_space.hpp"
#include "planner/run_disks.hpp"
#include "platform/topology.hpp"

namespace dos::launch {
namespace {

/// The device of what is at a path, or of what is there of the way to it; nullopt: nobody can tell.
std::optional<dev_t> device_of(std::filesystem::path path) {
  std::error_code error;
  path = std::filesystem::absolute(path, error);
  if (error) return std::nullopt;
  while (path.has_relative_path() && !std::filesystem::exists(path, error))
    path = path.parent_path();
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return found.st_dev;
}

std::vector<std::string> folders_of(const std::vector<offload::DiskPlace>& disks) {
  std::vector<std::string> folders;
  for (const offload::DiskPlace& disk : disks) folders.push_back(disk.folder.string());
  return folders;
}

/// Of the folders, the part on a device.
double part_on(dev_t device, const std::vector<std::string>& folders) {
  const auto here = std::ranges::count_if(
      folders, [&](const std::string& folder) { return device_of(folder) == device; });
  return static_cast<double>(here) / static_cast<double>(std::max<std::size_t>(1, folders.size()));
}

/// Has tiers whose folder is known name the run's folders on the same device instead, if there are
/// any.
void add_folders(const std::vector<std::string>& folders, perfmodels::Machine& machine) {
  for (perfmodels::Tier& tier : machine.tiers) {
    if (tier.folders.empty()) continue;
    const std::optional<dev_t> device = device_of(tier.folders.front());
    std::vector<std::string> here;
    for (const std::string& folder : folders)
      if (device && device_of(folder) == device) here.push_back(folder);
    if (!here.empty()) tier.folders = here;
  }
}

/// The rates of the disks of activations, if the machine has them all. `folders`: add_folders().
void add_disk_rates(const config::TrainConfig& config, const std::vector<std::string>& folders,
                    perfmodels::Machine machine, const planner::Deployment& layout,
                    fit::Measured& measured) {
  planner::PlanSettings settings;
  config::take_keys(config, settings);
  // Those that are known to be others are nobody's next one.
  std::erase_if(machine.tiers, [&](const perfmodels::Tier& tier) {
    return !tier.folders.empty() &&
           std::ranges::find(folders, tier.folders.front()) == folders.end();
  });
  // Those of states, which need no tiers beside them.
  if (settings.activation_disks.empty()) std::swap(settings.activation_disks, settings.disks);
  // Of no interest here.
  settings.state_memory.reset();
  if (settings.activation_disks.empty() || std::ssize(settings.disks) > std::ssize(machine.tiers) ||
      !planner::take_disks(settings, 1, machine))
    return;
  measured.disk = planner::activation_disk_rates(machine, layout);
  measured.disks = planner::activation_tier_names(machine);
}

/// Bytes of files that states take on disks once activations leave them all of host memory that
/// they can; a little more, as slots need room there, too.
Index likely_state_files(const train::Run& run, const fit::Room& room) {
  if (run.config.disks().empty()) return 0;
  const Index all = train::most_state_files(run);
  if (run.config.sched.host_memory != config::kAuto)
    return std::max<Index>(0, all - run.state_memory);
  constexpr Index kPartOfSlots = 8;
  config::TrainConfig least = run.config;
  least.train.activations = shape::activation_plan_text(shape::kRecomputeAll, run.model.layers);
  const planner::MemoryUse use = fit::estimate_run(run.with(least), room).host;
  const units::Bytes lack = use.total() - use.available;
  if (lack <= units::Bytes{0}) return 0;
  return std::min(all, static_cast<Index>(lack.value()) + all / kPartOfSlots);
}

}  // namespace

void add_measured_rates(const std::filesystem::path& machines, const config::TrainConfig& config,
                        const RankPlace& place, const std::string& policy, bool says,
                        fit::Room& room) {
  try {
    if (!is_calibrated(machines)) return;
    perfmodels::Machine machine = calibrated_machine(machines, place);
    std::vector<std::string> folders = folders_of(config.disks());
    std::ranges::copy(folders_of(config.activation_disks()), std::back_inserter(folders));
    add_folders(folders, machine);
    room.measured.whole = planner::Request{.machine = machine,
                                           .model = {},
                                           .ranks_per_node = place.position.local_size,
                                           .policy = policy,
                                           .settings = {}};
    const bool on_cpu = room.model_devices() == 0;
    // Whose training rate the file has. Without training_rate_fp32 it is an older one, which has
    // the CPUs' in any case.
    const bool is_cpus = machine.gpus.value == 0 || !machine.training_rate_fp32 ||
                         !machine.calibration || machine.calibration->host.nvidia_gpus == 0;
    if (on_cpu) machine.gpus.value = 0;
    planner::Deployment layout;
    layout.ranks_per_node = place.position.local_size;
    const planner::PassRates rates =
        planner::pass_rates_of(machine, layout, config.parameter_types().working);
    if (on_cpu == is_cpus) room.measured.compute = rates.compute;
    if (rates.link) room.measured.link = rates.link;
    add_disk_rates(config, folders, machine, layout, room.measured);
    room.measured.dram = rates.dram;
    room.measured.machine = platform::host_name() + ".toml";
  } catch (const Error& error) {
    if (says) log::warn("{}: train.activations=auto assumes rates", error.what());
  }
}

fit::SharedDisks shared_disks(const config::TrainConfig& config, const std::filesystem::path& out) {
  fit::SharedDisks shared;
  const std::vector<std::string> folders = folders_of(config.activation_disks());
  const std::string& local = config.train.checkpoint_local;
  for (const std::string& folder : folders) {
    const std::optional<dev_t> device = device_of(folder);
    if (!device) continue;
    const double part = part_on(*device, folders);
    shared.states = std::max(shared.states, part_on(*device, folders_of(config.disks())) / part);
    shared.checkpoints = std::max(shared.checkpoints,
                                  part_on(*device, {local.empty() ? out.string() : local}) / part);
  }
  return shared;
}

units::Bytes disk_room(const train::Run& run, const fit::Room& room, const RankPlace& place) {
  const std::vector<offload::DiskPlace> disks = run.config.activation_disks();
  try {
    const std::vector<offload::FileSystem> systems = offload::left_for_activations(
        disks, run.config.disks(), likely_state_files(run, room), place.position.local_size);
    return units::Bytes(static_cast<double>(offload::even_room(disks, systems)));
  } catch (const Error&) {
    // A folder that is not there is said when its space is reserved.
    return fit::Room().disk;
  }
}

}  // namespace dos::launch

// SPDX-License-Identifier: Apache-2.0
#include "planner/run_disks.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace dos::planner {
namespace {

using perfmodels::Tier;

void cap_size(Tier& tier, const PlannedDisk& disk, double ranks) {
  if (disk.most) tier.capacity.value = std::min(tier.capacity.value, *disk.most * ranks);
}

/// How many folders above a folder the tier is known to have, it among them; more for its name.
Index closeness(const Tier& tier, const std::string& folder) {
  if (folder.empty()) return 0;
  if (tier.name == folder) return std::numeric_limits<Index>::max();
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  Index most = 0;
  for (const std::string& known : tier.folders) {
    const std::filesystem::path above = std::filesystem::path(known).lexically_normal();
    if (std::ranges::mismatch(above, path).in1 == above.end())
      most = std::max<Index>(most, std::distance(above.begin(), above.end()));
  }
  return most;
}

/// The tiers of states: to each disk its tier_of() of those that are left, then to the others the
/// next ones. Pre: there are enough.
std::vector<Tier> take_states(const std::vector<PlannedDisk>& disks, double ranks,
                              std::vector<Tier>& left) {
  std::vector<Tier> taken(disks.size());
  const auto take = [&](std::size_t place, std::vector<Tier>::iterator tier) {
    taken[place] = *tier;
    cap_size(taken[place], disks[place], ranks);
    left.erase(tier);
  };
  for (std::size_t i = 0; i < disks.size(); ++i)
    if (const Tier* tier = tier_of(left, disks[i].folder))
      take(i, left.begin() + (tier - left.data()));
  for (std::size_t i = 0; i < disks.size(); ++i)
    if (taken[i].name.empty()) take(i, left.begin());
  return taken;
}

/// Counts at each tier the disks of activations that it is: its tier_of(), else the next one behind
/// the first `states` that none is. Whether each is one.
bool give_activations(const std::vector<PlannedDisk>& disks, std::size_t states,
                      std::vector<Tier>& tiers) {
  Index unknown = 0;
  for (const PlannedDisk& disk : disks) {
    if (const Tier* tier = tier_of(tiers, disk.folder))
      ++tiers[static_cast<std::size_t>(tier - tiers.data())].activation_folders;
    else
      ++unknown;
  }
  for (std::size_t i = states; i < tiers.size() && unknown > 0; ++i) {
    if (tiers[i].activation_folders > 0) continue;
    tiers[i].activation_folders = 1;
    --unknown;
  }
  return unknown == 0;
}

}  // namespace

const Tier* tier_of(const std::vector<Tier>& tiers, const std::string& folder) {
  const auto closest = std::ranges::max_element(
      tiers, {}, [&](const Tier& tier) { return closeness(tier, folder); });
  return closest == tiers.end() || closeness(*closest, folder) == 0 ? nullptr : &*closest;
}

bool take_disks(const PlanSettings& settings, double ranks, perfmodels::Machine& machine) {
  const auto count = static_cast<Index>(machine.tiers.size());
  expect(count > 0 || !settings.state_memory || *settings.state_memory == units::Bytes{0},
         "sched.host_memory: the machine file of {} has no disk for the states beyond it: measure "
         "one with calibrate --disk NAME=FOLDER, add a [[tier]] (docs/adding/machine.md), or leave "
         "sched.host_memory to auto",
         machine.name);
  expect(std::ssize(settings.disks) <= count,
         "sched.disks names {} disk(s), the machine file of {} has {}: measure each with calibrate "
         "--disk NAME=FOLDER, add a [[tier]] (docs/adding/machine.md), or name fewer",
         settings.disks.size(), machine.name, count);
  // All may have states, where they are needed.
  if (settings.disks.empty()) return give_activations(settings.activation_disks, 0, machine.tiers);
  std::vector<Tier> left = std::move(machine.tiers);
  machine.tiers = take_states(settings.disks, ranks, left);
  if (settings.activation_disks.empty()) {
    for (Tier& tier : machine.tiers) tier.activation_folders = 1;
    return true;
  }
  for (Tier& tier : left) tier.keeps_states = false;
  machine.tiers.insert(machine.tiers.end(), left.begin(), left.end());
  const bool has_all =
      give_activations(settings.activation_disks, settings.disks.size(), machine.tiers);
  std::erase_if(machine.tiers, [](const Tier& tier) {
    return !tier.keeps_states && tier.activation_folders == 0;
  });
  return has_all;
}

}  // namespace dos::planner

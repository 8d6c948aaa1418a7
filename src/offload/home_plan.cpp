// SPDX-License-Identifier: Apache-2.0
#include "offload/home_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/units.hpp"

namespace dos::offload {
namespace {

/// Of a slot's array: what direct transfers are multiples of everywhere.
constexpr Index kPage = 4096;

/// Subgroups with states on this rank, in the order of updates.
std::vector<Index> candidates(const HomeRequest& request) {
  const auto& subgroups = request.layout.subgroups;
  std::vector<Index> order;
  for (Index i = 0; i < std::ssize(subgroups); ++i) {
    const shape::Subgroup& subgroup = subgroups[static_cast<std::size_t>(i)];
    if (subgroup.trained && subgroup.count > 0 && request.ownership.owns(i)) order.push_back(i);
  }
  std::ranges::stable_sort(order, {},
                           [&](Index i) { return subgroups[static_cast<std::size_t>(i)].depth; });
  return order;
}

std::string describe(const shape::Layout& layout, const HomePlan& plan,
                     const std::vector<Index>& subgroups) {
  if (subgroups.empty()) return "";
  Index bytes = 0;
  for (const Index i : subgroups)
    bytes += plan.buffers() * padded_bytes(layout.subgroups[static_cast<std::size_t>(i)]);
  return fmt::format("{} of {} subgroups", format_bytes(bytes), subgroups.size());
}

}  // namespace

Index padded_bytes(const shape::Subgroup& subgroup) {
  const Index bytes = subgroup.count * size_of(DType::kF32);
  return (bytes + kPage - 1) / kPage * kPage;
}

shape::StateRegions regions_of(const shape::Layout& layout, const HomePlan& plan,
                               std::span<const StateForm> forms, Index disks) {
  std::vector<Index> sizes;
  for (const Index each : plan.on_disks()) {
    const auto subgroup = static_cast<std::size_t>(each);
    sizes.push_back(forms[subgroup].header_bytes +
                    plan.buffers() * padded_bytes(layout.subgroups[subgroup]));
  }
  return shape::regions_for(sizes, plan.slots, disks);
}

rt::MemoryBytes saved_memory(const shape::Layout& layout, const HomePlan& plan) {
  Index bytes = 0;  // of one buffer of each
  for (const HomePlan::Away& each : plan.away)
    bytes += layout.subgroups[static_cast<std::size_t>(each.subgroup)].count * size_of(DType::kF32);
  rt::MemoryBytes saved;
  if (plan.with_parameters) saved[MemoryCategory::kParameters] = bytes;
  saved[MemoryCategory::kStates] = plan.states * bytes - plan.memory();
  return saved;
}

std::vector<Index> HomePlan::on_disks() const {
  std::vector<Index> subgroups;
  for (const Away& each : away)
    if (each.device < 0) subgroups.push_back(each.subgroup);
  return subgroups;
}

std::vector<Index> HomePlan::on_devices() const {
  std::vector<Index> subgroups;
  for (const Away& each : away)
    if (each.device >= 0) subgroups.push_back(each.subgroup);
  return subgroups;
}

std::vector<Index> HomePlan::memory_of_devices(const shape::Layout& layout, Index devices) const {
  std::vector<Index> bytes(static_cast<std::size_t>(devices));
  for (const Away& each : away)
    if (each.device >= 0)
      bytes[static_cast<std::size_t>(each.device)] +=
          buffers() * padded_bytes(layout.subgroups[static_cast<std::size_t>(each.subgroup)]);
  return bytes;
}

std::string describe_disks(const shape::Layout& layout, const HomePlan& plan) {
  const std::string text = describe(layout, plan, plan.on_disks());
  return text.empty() ? text
                      : fmt::format("{}, through {} slots of {}", text, plan.slots,
                                    format_bytes(plan.slot_bytes));
}

std::string describe_devices(const shape::Layout& layout, const HomePlan& plan) {
  return describe(layout, plan, plan.on_devices());
}

HomePlan plan_homes(const HomeRequest& request) {
  const std::vector<Index> order = candidates(request);
  HomePlan plan{.states = request.states, .with_parameters = request.with_parameters};
  std::vector<Index> sizes;
  for (const Index i : order)
    sizes.push_back(plan.buffers() *
                    padded_bytes(request.layout.subgroups[static_cast<std::size_t>(i)]));
  const shape::HomeSplit split = shape::split_homes(sizes, request.workers, request.rooms);
  if (split.are_in_host_memory()) return plan;
  const std::set<std::size_t> on_disk(split.on_disk.begin(), split.on_disk.end());
  for (std::size_t place = 0; place < order.size(); ++place)
    if (split.device[place] >= 0 || on_disk.contains(place))
      plan.away.push_back({.subgroup = order[place], .device = split.device[place]});
  plan.slots = split.slots;
  plan.slot_bytes = split.slot_bytes;
  return plan;
}

}  // namespace dos::offload

// SPDX-License-Identifier: Apache-2.0
#include "offload/home_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"

namespace dos::offload {
namespace {

/// Of a slot's array: what direct transfers are multiples of everywhere.
constexpr Index kPage = 4096;

/// Slots beside those that workers update in: two are read, two are written.
constexpr Index kSlotsUnderWay = 4;
constexpr Index kLeastSlots = 2;

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

}  // namespace

Index padded_bytes(const shape::Subgroup& subgroup) {
  const Index bytes = subgroup.count * size_of(DType::kF32);
  return (bytes + kPage - 1) / kPage * kPage;
}

rt::MemoryBytes saved_memory(const shape::Layout& layout, const HomePlan& plan) {
  Index bytes = 0;  // of one buffer of each
  for (const Index i : plan.subgroups)
    bytes += layout.subgroups[static_cast<std::size_t>(i)].count * size_of(DType::kF32);
  rt::MemoryBytes saved;
  if (plan.with_parameters) saved[MemoryCategory::kParameters] = bytes;
  saved[MemoryCategory::kStates] = plan.states * bytes - plan.memory();
  return saved;
}

std::string describe(const shape::Layout& layout, const HomePlan& plan) {
  Index bytes = 0;
  for (const Index i : plan.subgroups)
    bytes += plan.buffers() * padded_bytes(layout.subgroups[static_cast<std::size_t>(i)]);
  return fmt::format("{} of {} subgroups, through {} slots of {}", format_bytes(bytes),
                     plan.subgroups.size(), plan.slots, format_bytes(plan.slot_bytes));
}

HomePlan plan_homes(const HomeRequest& request) {
  const std::vector<Index> order = candidates(request);
  HomePlan plan{.states = request.states, .with_parameters = request.with_parameters};
  const auto bytes_of = [&](Index i) {
    return plan.buffers() * padded_bytes(request.layout.subgroups[static_cast<std::size_t>(i)]);
  };
  Index all = 0;
  Index largest = 0;
  for (const Index i : order) {
    all += bytes_of(i);
    largest = std::max(largest, bytes_of(i));
  }
  if (all <= request.host_memory) return plan;
  const Index wanted = std::min(request.workers + kSlotsUnderWay, std::ssize(order));
  plan.slot_bytes = largest;
  plan.slots = wanted;
  Index room = 0;  // for states that stay
  if (request.host_memory > 0) {
    plan.slots = std::min(wanted, request.host_memory / largest);
    expect(plan.slots >= std::min(kLeastSlots, wanted),
           "sched.host_memory = {} is too little: {} of states go through it {} at a time; raise "
           "it to {}, or lower sched.subgroup_params",
           format_bytes(request.host_memory), format_bytes(all), format_bytes(largest),
           format_bytes(kLeastSlots * largest));
    room = request.host_memory - plan.memory();
  }
  const double stays = static_cast<double>(room) / static_cast<double>(all);
  double due = 0;  // bytes that should have stayed so far, of those before
  Index stayed = 0;
  for (const Index i : order) {
    const Index bytes = bytes_of(i);
    due += stays * static_cast<double>(bytes);
    const bool is_its_turn = static_cast<double>(stayed) + static_cast<double>(bytes) / 2 < due;
    if (is_its_turn && stayed + bytes <= room)
      stayed += bytes;
    else
      plan.subgroups.push_back(i);
  }
  return plan;
}

}  // namespace dos::offload

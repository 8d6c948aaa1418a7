// SPDX-License-Identifier: Apache-2.0
#include "planner/state_homes.hpp"

#include <algorithm>
#include <numeric>

namespace dos::planner {
namespace {

Index whole(units::Bytes bytes) {
  return static_cast<Index>(std::max(0.0, bytes.value()));
}

}  // namespace

shape::HomeSplit split_states(const sched::Problem& problem, units::Bytes host,
                              const std::vector<units::Bytes>& gpus, Index disks) {
  std::vector<Index> sizes;
  for (Index i = 0; i < std::ssize(problem.subgroups); ++i)
    sizes.push_back(whole(problem.state_bytes(i)));
  const Index all = std::accumulate(sizes.begin(), sizes.end(), Index{0});
  // What has no limit is more than all.
  const Index room = host.value() < static_cast<double>(all) ? whole(host) : all;
  const sched::UpdateCost& cost = problem.cost;
  const units::Bytes update = units::Params(static_cast<double>(problem.largest())) * cost.held();
  // What an update needs besides comes to the GPU, too; what stays has one bank.
  const units::BytesPerParam held = cost.held() - cost.state * static_cast<double>(cost.banks - 1);
  shape::HomeSplit split;
  // Of too little for slots the plan says so.
  if (room < shape::kLeastSlots * *std::ranges::max_element(sizes)) return split;
  for (const double window : {sched::kUpdatesBesideKept, sched::kLeastUpdatesBesideKept}) {
    std::vector<Index> devices;
    for (const units::Bytes free : gpus)
      devices.push_back(whole((free - update * window) * (cost.state / held)));
    split = shape::split_homes(sizes, problem.rates.cpu_workers + problem.gpus(),
                               {.host = room, .devices = std::move(devices), .disks = disks});
    if (split.on_disk.empty()) break;
  }
  return split;
}

void keep(const shape::HomeSplit& split, sched::Problem& problem) {
  for (std::size_t i = 0; i < split.device.size(); ++i) {
    problem.subgroups[i].kept_on = split.device[i];
    // Memory of its own has its size.
    if (split.device[i] >= 0) problem.subgroups[i].room = 0;
  }
}

}  // namespace dos::planner

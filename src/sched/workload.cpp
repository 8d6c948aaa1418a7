// SPDX-License-Identifier: Apache-2.0
#include "sched/workload.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace dos::sched {

units::Params Problem::total() const {
  double sum = 0;
  for (const Subgroup& subgroup : subgroups) sum += static_cast<double>(subgroup.params);
  return units::Params(sum);
}

Index Problem::largest() const {
  Index most = 0;
  for (const Subgroup& subgroup : subgroups) most = std::max(most, subgroup.params);
  return most;
}

units::Bytes Problem::held_bytes(Index subgroup) const {
  return units::Params(static_cast<double>(subgroups[static_cast<std::size_t>(subgroup)].params)) *
         cost.held();
}

units::Bytes Problem::streamed_bytes(Index subgroup, Index gpu) const {
  const Subgroup& each = subgroups[static_cast<std::size_t>(subgroup)];
  const units::Bytes held = held_bytes(subgroup);
  if (each.user < 0 || each.user == gpu) return held;
  return held + units::Params(static_cast<double>(each.params)) * (cost.weight + cost.gradient);
}

void Problem::validate() const {
  rates.validate();
  expect(!subgroups.empty(), "nothing to plan: the model has no subgroup");
  for (std::size_t i = 0; i < subgroups.size(); ++i) {
    expect(subgroups[i].params > 0, "subgroup {} has {} parameters", i, subgroups[i].params);
    expect(subgroups[i].user >= -1 && subgroups[i].user < gpus(),
           "subgroup {} is used by GPU {}, this rank has {}", i, subgroups[i].user, gpus());
    expect(i == 0 || subgroups[i - 1].depth <= subgroups[i].depth,
           "subgroup {} of depth {} stands behind depth {}: subgroups are in the order of forward",
           i, subgroups[i].depth, i == 0 ? 0 : subgroups[i - 1].depth);
  }
  expect(memory.size() == rates.gpus.size(), "{} GPUs, but memory of {}", rates.gpus.size(),
         memory.size());
  for (const StateMemory& gpu : memory)
    for (const units::Bytes bytes : {gpu.update, gpu.resident})
      expect(std::isfinite(bytes.value()) && bytes.value() >= 0,
             "GPU memory for states = {:g} bytes must be at least 0", bytes.value());
  expect(homes.empty() || homes.size() == subgroups.size(), "{} subgroups, but homes of {}",
         subgroups.size(), homes.size());
  for (const Index home : homes)
    expect(home >= -1 && home < gpus(), "states on GPU {}, this rank has {}", home, gpus());
}

}  // namespace dos::sched

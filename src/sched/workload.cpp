// SPDX-License-Identifier: Apache-2.0
#include "sched/workload.hpp"

#include <fmt/format.h>

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

std::string Problem::name_of_tier(Index tier) const {
  if (tier == kHost) return "host";
  if (is_gpu(tier)) return fmt::format("gpu {}", tier);
  return rates.tiers[static_cast<std::size_t>(tier - gpus())].name;
}

std::string Problem::name_of_way(Index tier, bool in) const {
  const char* way = is_gpu(tier) ? (in ? "h2d" : "d2h") : (in ? "write" : "read");
  return fmt::format("{} {}", name_of_tier(tier), way);
}

units::Bytes Problem::capacity_of(Index tier) const {
  return tier == kHost ? host_memory
                       : rates.tiers[static_cast<std::size_t>(tier - gpus())].capacity;
}

perfmodels::LinkRates Problem::link_of(Index tier) const {
  if (!is_gpu(tier)) return rates.tiers[static_cast<std::size_t>(tier - gpus())].link;
  const perfmodels::GpuRates& gpu = rates.gpus[static_cast<std::size_t>(tier)];
  return {.in = gpu.h2d,
          .out = gpu.d2h,
          .both = gpu.both,
          .in_cpu_busy = gpu.h2d_cpu_busy,
          .out_cpu_busy = gpu.d2h_cpu_busy,
          .both_cpu_busy = gpu.both_cpu_busy,
          .latency = rates.transfer_latency};
}

units::Bytes Problem::state_bytes(Index subgroup) const {
  return units::Params(static_cast<double>(subgroups[static_cast<std::size_t>(subgroup)].params)) *
         cost.state;
}

units::Bytes Problem::away_bytes(Index subgroup) const {
  return units::Params(static_cast<double>(subgroups[static_cast<std::size_t>(subgroup)].params)) *
         cost.away();
}

units::Bytes Problem::held_bytes(Index subgroup) const {
  const Subgroup& each = subgroups[static_cast<std::size_t>(subgroup)];
  return units::Params(static_cast<double>(each.room > 0 ? each.room : each.params)) * cost.held();
}

units::Bytes Problem::streamed_bytes(Index subgroup, Index gpu) const {
  const Subgroup& each = subgroups[static_cast<std::size_t>(subgroup)];
  const units::Bytes held = held_bytes(subgroup);
  if (each.user < 0 || each.user == gpu) return held;
  return held + units::Params(static_cast<double>(each.params)) * (cost.weight + cost.gradient);
}

bool Problem::has_kept() const {
  return std::ranges::any_of(subgroups, [](const Subgroup& each) { return each.kept_on >= 0; });
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
    expect(subgroups[i].kept_on >= -1 && subgroups[i].kept_on < gpus(),
           "GPU {} keeps subgroup {}, this rank has {}", subgroups[i].kept_on, i, gpus());
  }
  expect(memory.size() == rates.gpus.size(), "{} GPUs, but memory of {}", rates.gpus.size(),
         memory.size());
  for (const StateMemory& gpu : memory)
    for (const units::Bytes bytes : {gpu.update, gpu.resident, gpu.gradients})
      expect(std::isfinite(bytes.value()) && bytes.value() >= 0,
             "GPU memory for states = {:g} bytes must be at least 0", bytes.value());
  expect(host_memory.value() >= 0, "host memory for states = {:g} bytes must be at least 0",
         host_memory.value());
  expect(homes.empty() || homes.size() == subgroups.size(), "{} subgroups, but homes of {}",
         subgroups.size(), homes.size());
  expect(forward.empty() || subgroups.back().depth < std::ssize(forward),
         "forward of {} depths, but a subgroup of depth {}", forward.size(),
         subgroups.back().depth);
  for (const Index home : homes)
    expect(home >= kHost && home < tiers(), "states in tier {}, this rank has {}", home, tiers());
}

}  // namespace dos::sched

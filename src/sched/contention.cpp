// SPDX-License-Identifier: Apache-2.0
#include "sched/contention.hpp"

#include <algorithm>

namespace dos::sched {

void share_dram(std::vector<Flow>& flows, double bandwidth) {
  const auto demand_at = [&](double fraction) {
    double demand = 0;
    for (const Flow& flow : flows)
      demand += flow.bytes * std::min(fraction * flow.rate, flow.limit);
    return demand;
  };
  double fraction = 1;
  if (demand_at(1) > bandwidth) {
    // The demand is piecewise linear and rises with the fraction: each pass takes the flows that
    // are at their limits as given, and ends when no other flow reaches its own.
    std::vector<bool> limited(flows.size(), false);
    for (bool changed = true; changed;) {
      changed = false;
      double fixed = 0;
      double shared = 0;
      for (std::size_t i = 0; i < flows.size(); ++i)
        (limited[i] ? fixed : shared) +=
            flows[i].bytes * (limited[i] ? flows[i].limit : flows[i].rate);
      fraction = shared > 0 ? std::min(1.0, (bandwidth - fixed) / shared) : 1;
      for (std::size_t i = 0; i < flows.size(); ++i) {
        if (limited[i] || fraction * flows[i].rate <= flows[i].limit) continue;
        limited[i] = true;
        changed = true;
      }
    }
  }
  for (Flow& flow : flows) flow.rate = std::min(fraction * flow.rate, flow.limit);
}

}  // namespace dos::sched

// SPDX-License-Identifier: Apache-2.0
#include "sched/contention.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace dos::sched {
namespace {

void share_in_proportion(std::vector<Flow>& flows, double bandwidth) {
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
    for (bool changed = true; changed;) {
      changed = false;
      double fixed = 0;
      double shared = 0;
      for (const Flow& flow : flows)
        (flow.is_limited ? fixed : shared) +=
            flow.bytes * (flow.is_limited ? flow.limit : flow.rate);
      fraction = shared > 0 ? std::min(1.0, (bandwidth - fixed) / shared) : 1;
      for (Flow& flow : flows) {
        if (flow.is_limited || fraction * flow.rate <= flow.limit) continue;
        flow.is_limited = true;
        changed = true;
      }
    }
  }
  for (Flow& flow : flows) flow.rate = std::min(fraction * flow.rate, flow.limit);
}

double demand_of(const std::vector<Flow>& flows) {
  double demand = 0;
  for (const Flow& flow : flows) demand += flow.bytes * flow.rate;
  return demand;
}

/// Of those that lead or of the others, at their limits.
double demand_of(const std::vector<Flow>& flows, bool leads) {
  double demand = 0;
  for (const Flow& flow : flows)
    if (flow.leads == leads) demand += flow.bytes * std::min(flow.rate, flow.limit);
  return demand;
}

void share_behind(std::vector<Flow>& flows, double bandwidth);

/// Serves those that lead. Returns whether there are any; the others have their rates, too.
bool serve_leaders(std::vector<Flow>& flows, double bandwidth) {
  const double wanted = demand_of(flows, /*leads=*/true);
  if (wanted <= 0) return false;
  const double most = std::max(bandwidth / 2, bandwidth - demand_of(flows, /*leads=*/false));
  const double fraction = std::min(1.0, most / wanted);
  std::vector<Flow> others;
  for (Flow& flow : flows) {
    if (flow.leads)
      flow.rate = fraction * std::min(flow.rate, flow.limit);
    else
      others.push_back(flow);
  }
  share_behind(others, bandwidth - fraction * wanted);
  auto next = others.begin();
  for (Flow& flow : flows)
    if (!flow.leads) flow = *next++;
  return true;
}

void share_behind(std::vector<Flow>& flows, double bandwidth) {
  const auto first_to_yield = std::ranges::find_if(flows, &Flow::yields);
  require(std::all_of(first_to_yield, flows.end(), [](const Flow& flow) { return flow.yields; }),
          "flows that yield stand last");
  if (first_to_yield == flows.end()) return share_in_proportion(flows, bandwidth);
  std::vector<Flow> others(flows.begin(), first_to_yield);
  std::vector<Flow> undisturbed = others;
  share_in_proportion(undisturbed, bandwidth);
  double left = bandwidth - demand_of(undisturbed);
  double taken = 0;
  for (auto flow = first_to_yield; flow != flows.end(); ++flow) {
    const double bytes = std::min(flow->bytes * std::min(flow->rate, flow->limit),
                                  std::max(left, std::min(flow->least, bandwidth - taken)));
    flow->rate = flow->bytes > 0 ? bytes / flow->bytes : flow->rate;
    left = std::max(0.0, left - bytes);
    taken += bytes;
  }
  share_in_proportion(others, bandwidth - taken);
  std::ranges::copy(others, flows.begin());
}

}  // namespace

void share_dram(std::vector<Flow>& flows, double bandwidth) {
  if (!serve_leaders(flows, bandwidth)) share_behind(flows, bandwidth);
}

}  // namespace dos::sched

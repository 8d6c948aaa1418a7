// SPDX-License-Identifier: Apache-2.0
#include "sched/mlp_offload.hpp"

#include <algorithm>
#include <vector>

#include "sched/interleave.hpp"

namespace dos::sched {
namespace {

/// Of each disk: one that is read, one that is written; and one that is updated.
Index on_the_way(const Problem& problem) {
  return 2 * std::ssize(problem.rates.tiers) + 1;
}

/// The disk that is furthest behind its part of what has been dealt.
std::size_t next_disk(const std::vector<double>& weights, const std::vector<double>& dealt) {
  std::size_t next = 0;
  for (std::size_t d = 1; d < weights.size(); ++d)
    if (dealt[d] / weights[d] < dealt[next] / weights[next]) next = d;
  return next;
}

}  // namespace

Plan plan_mlp_offload(const Problem& problem, const PolicyOptions& options) {
  Plan plan = all_cpu(problem);
  plan.reason = "policy: what host memory does not hold on all disks, every update on the CPU";
  plan.execution.cpu_team = options.published;
  const units::Bytes all = problem.total() * problem.cost.away();
  if (problem.rates.tiers.empty() || all <= problem.host_memory) return plan;
  std::vector<double> weights;
  for (const perfmodels::TierRates& tier : problem.rates.tiers)
    weights.push_back(std::min(tier.link.in, tier.link.out).value());
  std::vector<double> dealt(weights.size(), 0.0);
  const units::Bytes largest =
      units::Params(static_cast<double>(problem.largest())) * problem.cost.away();
  units::Bytes room = problem.host_memory - largest * static_cast<double>(on_the_way(problem));
  for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
    const units::Bytes bytes = problem.away_bytes(static_cast<Index>(i));
    if (bytes <= room) {
      room -= bytes;
      continue;
    }
    room = units::Bytes{0};
    const std::size_t disk = next_disk(weights, dealt);
    dealt[disk] += bytes.value();
    plan.assignments[i].home = problem.gpus() + static_cast<Index>(disk);
  }
  return plan;
}

}  // namespace dos::sched

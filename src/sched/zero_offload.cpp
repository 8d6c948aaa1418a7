// SPDX-License-Identifier: Apache-2.0
#include "sched/zero_offload.hpp"

#include "sched/interleave.hpp"

namespace dos::sched {

Plan plan_zero_offload(const Problem& problem, const PolicyOptions& options) {
  Plan plan = all_cpu(problem);
  plan.reason = "policy: every update on the CPU";
  if (options.published) {
    plan.execution.cpu_team = true;
    plan.execution.downcast = Downcast::kBlocking;
    plan.execution.joins_copies = false;
  }
  return plan;
}

}  // namespace dos::sched

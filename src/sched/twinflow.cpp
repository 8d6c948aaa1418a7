// SPDX-License-Identifier: Apache-2.0
#include "sched/twinflow.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "sched/interleave.hpp"

namespace dos::sched {
Plan plan_twinflow(const Problem& problem, const PolicyOptions& options) {
  Plan plan = all_cpu(problem);
  place_residents(problem, plan, resident_room(problem, options));
  if (options.share) {
    const auto count = static_cast<double>(plan.assignments.size());
    const auto wanted = static_cast<std::size_t>(std::llround(*options.share * count));
    for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
      Assignment& assignment = plan.assignments[i];
      if (i >= wanted) assignment = {};
      expect(i >= wanted || is_resident(assignment),
             "sched.share = {:g}: GPU memory holds the states of {} of {} subgroups for ever, {} "
             "are asked for",
             *options.share, i, plan.assignments.size(), wanted);
    }
  }
  deal_weights(problem, plan);
  plan.reason = "policy: states stay on the GPU from the first subgroup on, the rest on the CPU";
  if (options.published) {
    plan.execution.cpu_team = true;
    plan.execution.downcast = Downcast::kBlocking;
    plan.execution.joins_copies = false;
    plan.execution.published_kernels = true;
  }
  return plan;
}

}  // namespace dos::sched

// SPDX-License-Identifier: Apache-2.0
#include "sched/dos_stride.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "sched/interleave.hpp"

namespace dos::sched {
namespace {

/// The integer above 1 / share, 0 when the GPU gets nothing.
Index stride_of_bound(const Problem& problem, const PolicyOptions& options) {
  const Bound bound = lower_bound(problem, {.busy_links = true,
                                            .half_duplex = options.half_duplex || options.published,
                                            .residents = false});
  units::Params streamed{0};
  for (const units::Params each : bound.streamed) streamed += each;
  if (streamed <= problem.total() * 1e-9) return 0;
  return static_cast<Index>(std::ceil(problem.total() / streamed * (1 - 1e-9)));
}

}  // namespace

Plan plan_dos_stride(const Problem& problem, const PolicyOptions& options) {
  expect(problem.gpus() > 0 || !options.stride,
         "sched.stride = {} needs a GPU, this machine has none", options.stride.value_or(0));
  expect(!options.published || options.stride.value_or(2) >= 2,
         "sched.stride = {}: the published code needs at least 2", options.stride.value_or(0));
  Plan plan = all_cpu(problem);
  Index stride =
      problem.gpus() == 0 ? 0 : options.stride.value_or(stride_of_bound(problem, options));
  if (options.published && stride == 1) stride = 2;
  Index next_gpu = 0;
  for (std::size_t i = 0; stride > 0 && i < plan.assignments.size(); ++i) {
    if ((static_cast<Index>(i) + 1) % stride != 0) continue;
    plan.assignments[i] = streamed_to(next_gpu);
    next_gpu = (next_gpu + 1) % problem.gpus();
  }
  deal_weights(problem, plan);
  plan.reason = stride == 0 ? reason_for_all_cpu(problem)
                            : fmt::format("policy: one of {} subgroups on the GPU", stride);
  if (options.published) {
    set_windows(problem, plan, 1);
    plan.execution = {.half_duplex = true,
                      .lockstep = true,
                      .cpu_team = true,
                      .joins_copies = false,
                      .published_kernels = true,
                      .downcast = Downcast::kBackground};
  } else {
    set_windows(problem, plan, options.window);
  }
  return plan;
}

}  // namespace dos::sched

// SPDX-License-Identifier: Apache-2.0
#include "sched/gpu_only.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "sched/interleave.hpp"
#include "sched/shares.hpp"

namespace dos::sched {

Plan plan_gpu_only(const Problem& problem, const PolicyOptions& options) {
  expect(problem.gpus() > 0, "policy gpu-only needs a GPU, this machine has none");
  Plan plan = all_cpu(problem);
  const Scope scope = scope_by_size(problem, options);
  units::Bytes all{0};
  for (std::size_t i = 0; i < plan.assignments.size(); ++i)
    all += problem.held_bytes(static_cast<Index>(i));
  std::vector<units::Bytes> room = resident_room(problem, options);
  units::Bytes total_room{0};
  for (const units::Bytes each : room) total_room += each;
  if (all > total_room) {
    // What does not stay is streamed and needs its window.
    const Index size = scope.size;
    const units::Bytes slot = units::Params(static_cast<double>(size)) * problem.cost.held();
    for (Index g = 0; g < problem.gpus(); ++g) {
      const auto window =
          static_cast<double>(options.window.value_or(useful_window(problem, g, size)));
      const units::Bytes free = problem.memory[static_cast<std::size_t>(g)].update - slot * window;
      units::Bytes& mine = room[static_cast<std::size_t>(g)];
      mine = std::max(units::Bytes{0}, std::min(mine, free));
    }
  }
  const bool by_size = scope.residents == Residents::kLargest;
  (by_size ? place_largest : place_residents)(problem, plan, room);
  const double each =
      problem.total().value() * (1 - plan.gpu_share(problem)) / static_cast<double>(problem.gpus());
  spread_streamed(problem, plan, std::vector<units::Params>(room.size(), units::Params(each)));
  set_windows(problem, plan, options.window);
  plan.reason = "policy: every update on the GPU";
  return plan;
}

}  // namespace dos::sched

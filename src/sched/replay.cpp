// SPDX-License-Identifier: Apache-2.0
#include "sched/replay.hpp"

#include "base/error.hpp"
#include "sched/simulation.hpp"

namespace dos::sched {

const char* name_of(Work work) {
  switch (work) {
    case Work::kCpuUpdate:
      return "cpu update";
    case Work::kDowncast:
      return "downcast";
    case Work::kGpuUpdate:
      return "gpu update";
    case Work::kStateIn:
      return "state in";
    case Work::kStateOut:
      return "state out";
    case Work::kWeightIn:
      return "weight in";
    case Work::kGradientOut:
      return "gradient out";
    case Work::kGradientIn:
      return "gradient in";
    case Work::kParameterOut:
      return "parameter out";
    case Work::kPass:
      return "forward or backward";
  }
  return "?";
}

std::string track_of(const Problem& problem, const Activity& activity) {
  switch (activity.work) {
    case Work::kCpuUpdate:
      return "cpu";
    case Work::kDowncast:
      return "downcast";
    case Work::kGpuUpdate:
    case Work::kPass:
      return problem.name_of_tier(activity.tier) + " update";
    case Work::kStateIn:
    case Work::kWeightIn:
    case Work::kGradientIn:
      return problem.name_of_way(activity.tier, /*in=*/true);
    case Work::kStateOut:
    case Work::kGradientOut:
    case Work::kParameterOut:
      return problem.name_of_way(activity.tier, /*in=*/false);
  }
  return "?";
}

void expect_plays(const Problem& problem, const Plan& plan) {
  const auto gpus = static_cast<std::size_t>(problem.gpus());
  require(plan.window.size() == gpus && plan.window_memory.size() == gpus, "a window for each GPU");
  require(plan.assignments.size() == problem.subgroups.size(), "the plan is of this problem");
  for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
    const Assignment& assignment = plan.assignments[i];
    require(is_on_cpu(assignment) ? problem.is_gpu(assignment.reader) || gpus == 0
                                  : problem.is_gpu(assignment.device),
            "a subgroup belongs to a GPU that exists");
    const Index home = assignment.home;
    require(home == kHost || home == assignment.device ||
                (problem.only_keeps(home) && home < problem.tiers()),
            "states live in host memory, where they are updated, or in a tier that only keeps");
    require(problem.homes.empty() || problem.homes[i] == home ||
                (!problem.only_keeps(home) && !problem.only_keeps(problem.homes[i])),
            "states do not move into or out of a tier that only keeps");
    if (!is_streamed(assignment)) continue;
    const auto gpu = static_cast<std::size_t>(assignment.device);
    const double bytes = problem.held_bytes(static_cast<Index>(i)).value();
    const double room = plan.window_memory[gpu].value();
    expect(bytes <= room * (1 + 1e-12) && plan.window[gpu] > 0,
           "GPU {} has {:.3f} GB for streamed states, subgroup {} needs {:.3f} GB: use smaller "
           "subgroups",
           assignment.device, room / 1e9, i, bytes / 1e9);
  }
  expect_homes_fit(problem, plan.assignments);
}

Replay replay(const Problem& problem, const Plan& plan, bool record) {
  expect_plays(problem, plan);
  return Simulation(problem, plan, record).run();
}

std::optional<units::Seconds> update_end_by(const Problem& problem, const Plan& plan,
                                            units::Seconds limit) {
  expect_plays(problem, plan);
  const std::optional<units::Seconds> end =
      Simulation(problem, plan, /*record=*/false).run_until(limit.value());
  return end && *end > limit ? std::nullopt : end;
}

}  // namespace dos::sched

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
  }
  return "?";
}

Replay replay(const Problem& problem, const Plan& plan, bool record) {
  const auto gpus = static_cast<std::size_t>(problem.gpus());
  require(plan.window.size() == gpus && plan.window_memory.size() == gpus, "a window for each GPU");
  for (std::size_t i = 0; i < plan.assignments.size(); ++i) {
    const Assignment& assignment = plan.assignments[i];
    require(assignment.gpu < problem.gpus() &&
                (assignment.gpu >= 0 ||
                 (assignment.placement == Placement::kCpu && problem.gpus() == 0)),
            "a subgroup belongs to a GPU that exists");
    if (assignment.placement != Placement::kStreamed) continue;
    const auto gpu = static_cast<std::size_t>(assignment.gpu);
    const double bytes = problem.held_bytes(static_cast<Index>(i)).value();
    const double room = plan.window_memory[gpu].value();
    expect(bytes <= room * (1 + 1e-12) && plan.window[gpu] > 0,
           "GPU {} has {:.3f} GB for streamed states, subgroup {} needs {:.3f} GB: use smaller "
           "subgroups",
           assignment.gpu, room / 1e9, i, bytes / 1e9);
  }
  return Simulation(problem, plan, record).run();
}

}  // namespace dos::sched

// SPDX-License-Identifier: Apache-2.0
#include "train/policy_watch.hpp"

#include "base/log.hpp"
#include "sched_starpu/policies.hpp"

namespace dos::train {

std::optional<StepMetrics::Flush> PolicyWatch::flush_of(Index step) {
  const std::optional<sched_starpu::StepReport> report = sched_starpu::step_report(step);
  if (!report || report->needed.empty()) return std::nullopt;
  return StepMetrics::Flush{.megabytes = report->flushed.value() / 1e6,
                            .ms_waited = report->waited.value() * 1e3};
}

void PolicyWatch::drop_dead(const tensor::ParameterSet& parameters, optim::Optimizer& optimizer) {
  if (!sched_starpu::is_memory_short()) return;
  for (Index i = 0; i < std::ssize(parameters.layout().subgroups); ++i)
    if (parameters.gradients().has(i)) parameters.gradients()[i].drop_copies();
  optimizer.drop_dead();
}

void PolicyWatch::warn_of_obstacle(Index step, bool is_last) {
  // The second step is the first that is planned, but a device may have shown no rate by then.
  constexpr Index kPlannedSteps = 3;
  if (has_warned_ || (step < kPlannedSteps && !is_last)) return;
  const std::string obstacle = sched_starpu::obstacle();
  if (obstacle.empty()) return;
  has_warned_ = true;
  log::warn("scheduler {}: {}: updates stay on the CPU", scheduler_, obstacle);
}

}  // namespace dos::train

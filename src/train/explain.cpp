// SPDX-License-Identifier: Apache-2.0
#include "train/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

namespace dos::train {
namespace {

constexpr Index kShownSteps = 5;

std::string line(const std::string& name, std::span<const sched_starpu::StepReport> steps) {
  sched_starpu::StepReport sum;
  for (const sched_starpu::StepReport& step : steps) {
    sum.planned_gpu += step.planned_gpu;
    sum.executed_gpu += step.executed_gpu;
    sum.total += step.total;
    sum.moved += step.moved;
  }
  const double total = std::max(1.0, sum.total.value());
  return fmt::format("  {:<12}{:>12.1f} %{:>12.1f} %{:>14}\n", name,
                     sum.planned_gpu.value() / total * 100, sum.executed_gpu.value() / total * 100,
                     sum.moved);
}

}  // namespace

std::string explain(const sched_starpu::Report& report) {
  if (report.steps.empty())
    return "update plan: none; one of our policies makes it after the first step\n";
  std::string text = fmt::format("update plan: {}\n", report.plan.empty() ? "none" : report.plan);
  if (!report.obstacle.empty()) text += fmt::format("no other plan: {}\n", report.obstacle);
  text += fmt::format("  {:<12}{:>14}{:>14}{:>14}\n", "step", "GPU, planned", "GPU, done", "moved");
  const std::span steps(report.steps);
  const auto shown = std::min<std::size_t>(kShownSteps, steps.size());
  for (std::size_t i = steps.size() - shown; i < steps.size(); ++i)
    text += line(fmt::format("{}", steps[i].step), steps.subspan(i, 1));
  text += line("all", steps);
  return text;
}

}  // namespace dos::train

// SPDX-License-Identifier: Apache-2.0
#include "train/explain.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dos::train {
namespace {

std::string line(const std::string& name, const sched_starpu::StepReport& step) {
  const double total = std::max(1.0, step.total.value());
  return fmt::format("  {:<12}{:>12.1f} %{:>12.1f} %{:>14}\n", name,
                     step.planned_gpu.value() / total * 100,
                     step.executed_gpu.value() / total * 100, step.moved);
}

}  // namespace

std::string explain(const sched_starpu::Report& report) {
  if (report.steps.empty())
    return "update plan: none; one of our policies makes it after the first step\n";
  std::string text = fmt::format("update plan: {}\n", report.plan.empty() ? "none" : report.plan);
  if (!report.obstacle.empty()) text += fmt::format("no other plan: {}\n", report.obstacle);
  text += fmt::format("  {:<12}{:>14}{:>14}{:>14}\n", "step", "GPU, planned", "GPU, done", "moved");
  for (const sched_starpu::StepReport& step : report.steps)
    text += line(fmt::format("{}", step.step), step);
  text += line("all", report.all);
  return text;
}

}  // namespace dos::train

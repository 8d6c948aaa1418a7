// SPDX-License-Identifier: Apache-2.0
#include "train/explain.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dos::train {
namespace {

constexpr double kMega = 1e6;
constexpr double kGiga = 1e9;

std::string share_line(const std::string& name, const sched_starpu::StepReport& step) {
  const double total = std::max(1.0, step.total.value());
  return fmt::format("  {:<14}{:>12.1f} %{:>12.1f} %{:>14}\n", name,
                     step.planned_gpu.value() / total * 100,
                     step.executed_gpu.value() / total * 100, step.moved);
}

std::string shares(const sched_starpu::Report& report) {
  std::string text = fmt::format("  {:<14}{:>14}{:>14}{:>14}\n", "updates, step", "GPU, planned",
                                 "GPU, done", "moved");
  for (const sched_starpu::StepReport& step : report.steps)
    text += share_line(fmt::format("{}", step.step), step);
  return text + share_line("all", report.all);
}

std::string times(const sched_starpu::Report& report) {
  std::string text = fmt::format("  {:<14}{:>9}{:>14}{:>10}{:>14}{:>14}{:>14}\n", "device",
                                 "workers", "Mparam/s", "busy", "waits: data", "window", "no task");
  for (const sched_starpu::DeviceReport& device : report.devices) {
    const sched_starpu::WorkerTimes& t = device.times;
    const double total = std::max(1e-9, t.total().value());
    const auto percent = [&](units::Seconds part) { return part.value() / total * 100; };
    const std::string rate =
        device.rate ? fmt::format("{:.1f}", device.rate->value() / kMega) : "unknown";
    text += fmt::format("  {:<14}{:>9}{:>14}{:>8.1f} %{:>12.1f} %{:>12.1f} %{:>12.1f} %\n",
                        device.name, device.workers, rate, percent(t.running), percent(t.data),
                        percent(t.window), percent(t.nothing));
  }
  return text;
}

std::string flush(const sched_starpu::Report& report) {
  if (report.devices.size() < 2) return "";
  const auto steps = static_cast<double>(std::max<Index>(1, report.all.step));
  return fmt::format(
      "  gradients to host memory during backward: {:.3f} MB a step; CPU updates waited {:.3f} ms "
      "a "
      "step for their data\n",
      report.all.flushed.value() / kMega / steps, report.all.waited.value() * 1e3 / steps);
}

std::string link_line(const std::string& name, units::BytesPerSecond rate, units::Bytes planned,
                      units::Bytes moved, units::Seconds time) {
  const double use = moved / rate / std::max(units::Seconds(1e-9), time) * 100;
  return fmt::format("  {:<26}{:>8.2f}{:>14.3f}{:>14.3f}{:>8.1f} %\n", name, rate.value() / kGiga,
                     planned.value() / kMega, moved.value() / kMega, use);
}

std::string links(const sched_starpu::Report& report) {
  std::string text;
  for (std::size_t gpu = 0; gpu + 1 < report.devices.size(); ++gpu) {
    const sched_starpu::DeviceReport& device = report.devices[gpu + 1];
    if (!device.moved) continue;
    const sched_starpu::Traffic planned =
        gpu < report.all.planned.size() ? report.all.planned[gpu] : sched_starpu::Traffic{};
    const units::Seconds time = device.times.total();
    text += link_line("host -> " + device.name, device.h2d, planned.in, device.moved->in, time);
    text += link_line(device.name + " -> host", device.d2h, planned.out, device.moved->out, time);
  }
  if (text.empty()) return "";
  return fmt::format("  {:<26}{:>8}{:>14}{:>14}{:>10}\n", "link", "GB/s", "updates, MB",
                     "moved, MB", "used") +
         text;
}

}  // namespace

std::string explain(const sched_starpu::Report& report) {
  if (report.steps.empty())
    return "update plan: none; one of our policies makes it after the first step\n";
  std::string text = fmt::format("update plan: {}\n", report.plan.empty() ? "none" : report.plan);
  if (!report.reason.empty()) text += fmt::format("because: {}\n", report.reason);
  if (!report.obstacle.empty()) text += fmt::format("no other plan: {}\n", report.obstacle);
  return text + shares(report) + times(report) + links(report) + flush(report);
}

}  // namespace dos::train

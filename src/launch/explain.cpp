// SPDX-License-Identifier: Apache-2.0
#include "launch/explain.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dos::launch {
namespace {

constexpr double kMega = 1e6;
constexpr double kGiga = 1e9;

std::string share_line(const std::string& name, const sched_starpu::StepReport& step) {
  const double total = std::max(1.0, step.total.value());
  const auto percent = [&](units::Params part) { return part.value() / total * 100; };
  return fmt::format("  {:<14}{:>12.1f} %{:>12.1f} %{:>12.1f} %{:>12.1f} %{:>8}\n", name,
                     percent(step.planned_gpu), percent(step.executed_gpu), percent(step.to_cpu),
                     percent(step.to_gpu), step.moved);
}

std::string moves(const sched_starpu::UpdatesReport& report) {
  const sched_starpu::StepReport& all = report.all;
  std::string text = fmt::format("  {} of {} updates were taken by an idle device from a late one",
                                 all.overdue, all.updates);
  if (all.sooner > 0)
    text += fmt::format(", {} went where they end first beside backward", all.sooner);
  const Index unable = all.moved - all.overdue - all.sooner;
  if (unable > 0) text += fmt::format(", {} could not run where they were planned", unable);
  return text + '\n';
}

/// Without a device nothing was shared out.
std::string shares(const sched_starpu::UpdatesReport& report) {
  if (report.devices.size() < 2) return "";
  std::string text = fmt::format("  {:<14}{:>14}{:>14}{:>14}{:>14}{:>8}\n", "updates, step",
                                 "GPU, planned", "GPU, done", "moved to CPU", "to GPU", "moved");
  for (const sched_starpu::StepReport& step : report.steps)
    text += share_line(fmt::format("{}", step.step), step);
  return text + share_line("all", report.all) + moves(report);
}

std::string times(const sched_starpu::UpdatesReport& report) {
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

std::string flush(const sched_starpu::UpdatesReport& report) {
  if (report.devices.size() < 2) return "";
  const auto steps = static_cast<double>(std::max<Index>(1, report.all.step));
  return fmt::format(
      "  gradients to host memory during backward: {:.3f} MB a step; CPU updates waited {:.3f} ms "
      "a "
      "step for their data\n",
      report.all.flushed.value() / kMega / steps, report.all.waited.value() * 1e3 / steps);
}

std::string link_line(const std::string& name, units::BytesPerSecond rate, units::Bytes needed,
                      units::Bytes moved, units::Seconds time) {
  const double use = moved / rate / std::max(units::Seconds(1e-9), time) * 100;
  return fmt::format("  {:<26}{:>8.2f}{:>14.3f}{:>14.3f}{:>8.1f} %\n", name, rate.value() / kGiga,
                     needed.value() / kMega, moved.value() / kMega, use);
}

std::string links(const sched_starpu::UpdatesReport& report) {
  std::string text;
  for (std::size_t gpu = 0; gpu + 1 < report.devices.size(); ++gpu) {
    const sched_starpu::DeviceReport& device = report.devices[gpu + 1];
    if (!device.moved) continue;
    const sched_starpu::Traffic needed =
        gpu < report.all.needed.size() ? report.all.needed[gpu] : sched_starpu::Traffic{};
    const units::Seconds time = device.times.total();
    text += link_line("host -> " + device.name, device.h2d, needed.in, device.moved->in, time);
    text += link_line(device.name + " -> host", device.d2h, needed.out, device.moved->out, time);
  }
  if (text.empty()) return "";
  return fmt::format("  {:<26}{:>8}{:>14}{:>14}{:>10}\n", "link", "GB/s", "updates, MB",
                     "moved, MB", "used") +
         text;
}

}  // namespace

std::string explain(const sched_starpu::UpdatesReport& report) {
  if (report.steps.empty())
    return "update plan: none; one of our policies makes it after the first step\n";
  std::string text = fmt::format("update plan: {}\n", report.plan.empty() ? "none" : report.plan);
  if (!report.reason.empty()) text += fmt::format("because: {}\n", report.reason);
  if (!report.obstacle.empty()) text += fmt::format("no other plan: {}\n", report.obstacle);
  const sched_starpu::PlansMade& plans = report.plans;
  text +=
      fmt::format("plans: {} made beside forward and backward; updates waited {:.1f} ms for {}\n",
                  plans.ahead, plans.waited * 1e3 / units::Seconds(1), plans.waited_for);
  return text + shares(report) + times(report) + links(report) + flush(report);
}

std::string explain(const train::Speculation::Totals& totals) {
  if (totals.steps == 0) return "";
  const auto steps = static_cast<double>(std::max(totals.ahead, Index{1}));
  return fmt::format(
      "updates ahead of the norm: in {} of {} steps, made again in {}; a step hid {:.1f} ms beside "
      "backward, and made again took {:.1f} ms\n",
      totals.ahead, totals.steps, totals.redone, totals.ms_hidden / steps,
      totals.ms_redone / steps);
}

}  // namespace dos::launch

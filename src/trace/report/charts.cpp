// SPDX-License-Identifier: Apache-2.0
#include "trace/report/charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/units.hpp"
#include "trace/report/palette.hpp"
#include "trace/report/terms.hpp"

namespace dos::trace {
namespace {

constexpr double kRow = 24;
constexpr double kBar = 20;
constexpr double kTop = (kRow - kBar) / 2;
/// Parts of a bar that have room for their share on a wide page, and on a narrow one.
constexpr double kNamed = 0.05;
constexpr double kNamedOnNarrow = 0.12;
/// More marks than these would be a curtain.
constexpr std::size_t kMostMarks = 60;
constexpr const char* kOtherTasks = "other tasks";
constexpr std::array kPhases{"forward", "backward", "reduce", "update", "validation"};

/// A part of a worker's time.
struct Part {
  std::string name;
  ColorFamily family;
  double time;
};

/// What the worker computed, by phase, and what it lost; idle time without a reason is the rest.
std::vector<Part> parts_of(const WorkerUse& worker) {
  double memory_bound = 0;
  double others = worker.of(Use::kComputing) + worker.of(Use::kDram);
  for (const auto& [phase, time] : worker.phases) {
    others -= time;
    if (phase == "update" || phase == "reduce") memory_bound += time;
  }
  std::vector<Part> parts;
  for (const char* phase : kPhases) {
    const auto found = worker.phases.find(phase);
    if (found == worker.phases.end()) continue;
    const bool slowed = found->first == "update" || found->first == "reduce";
    const double slow = slowed ? worker.of(Use::kDram) * found->second / memory_bound : 0;
    parts.push_back({phase, ColorFamily::kRun, found->second - slow});
  }
  if (others > 0) parts.push_back({kOtherTasks, ColorFamily::kRun, others});
  for (const Use use : {Use::kDram, Use::kData, Use::kDevice, Use::kHeldBack, Use::kRanks})
    parts.push_back({name_of(use), ColorFamily::kWait, worker.of(use)});
  parts.push_back({"checkpoint", ColorFamily::kRun, worker.of(Use::kCheckpoint)});
  return parts;
}

std::string use_row(const WorkerUse& worker, bool with_rank) {
  double total = 0;
  for (const double each : worker.time) total += each;
  Plot plot(kRow);
  plot.rect(0, kTop, 1, kBar, kBackground,
            fmt::format("{}: no work {}", worker.name,
                        format_share(total > 0 ? worker.of(Use::kNoWork) / total : 0)));
  double x = 0;
  for (const Part& part : parts_of(worker)) {
    const double share = total > 0 ? part.time / total : 0;
    if (share <= 0) continue;
    plot.rect(x, kTop, share, kBar, fill_of(part.family, part.name),
              fmt::format("{}: {} {}", worker.name, part.name, format_share(share)));
    if (share > kNamed)
      plot.label(x + share / 2, kRow / 2, fmt::format("{:.0f} %", share * 100),
                 share > kNamedOnNarrow ? "on-plot centred" : "on-plot centred minor");
    x += share;
  }
  const std::string name =
      with_rank ? fmt::format("{}: {}", worker.rank, worker.name) : worker.name;
  return row(name, plot.finish(name + ": what its time went to"));
}

}  // namespace

std::string use_chart(const Analysis& analysis) {
  const bool with_rank = !analysis.workers.empty() && analysis.workers.back().rank > 0;
  std::string rows;
  std::vector<std::string> ran;
  for (const WorkerUse& worker : analysis.workers) {
    rows += use_row(worker, with_rank);
    for (const Part& part : parts_of(worker))
      if (part.time > 0 && part.family == ColorFamily::kRun) ran.push_back(part.name);
  }
  std::vector<Term> terms = terms_of_uses(analysis);
  if (std::ranges::find(ran, kOtherTasks) != ran.end())
    terms.insert(terms.begin(), {key_square(fill_of(ColorFamily::kRun, kOtherTasks)), kOtherTasks,
                                 "tasks of no phase above"});
  return chart(rows) + legend(ColorFamily::kRun, ran) + definitions(terms);
}

std::string link_chart(const LinkUse& link) {
  std::string rows;
  const double most = std::max(link.peak, 1.0);
  const auto bar = [&](const std::string& name, double rate, const std::string& fill) {
    Plot plot(kRow);
    const double part = std::min(1.0, rate / most);
    plot.rect(0, kTop, 1, kBar, kBackground);
    plot.rect(0, kTop, part, kBar, fill, fmt::format("{}: {}", name, format_rate(rate)));
    plot.label(std::min(part, 0.5), kRow / 2,
               link.peak > 0 ? fmt::format("{} ({} of peak)", format_rate(rate),
                                           format_share(rate / link.peak))
                             : format_rate(rate),
               "on-plot");
    rows += row(name, plot.finish(fmt::format("{}, {}: {}", link.name, name, format_rate(rate))));
  };
  for (const char* phase : kPhases)
    if (const auto use = link.phases.find(phase); use != link.phases.end() && use->second.time > 0)
      bar(phase, use->second.bytes_per_s(), fill_of(ColorFamily::kRun, phase));
  bar("while busy", link.bytes_per_s(), kNeutral);
  return chart(rows);
}

const StepTimes* long_first_step(const Analysis& analysis) {
  constexpr double kLong = 3;    // times as long as the median
  constexpr double kWide = 0.2;  // of the chart
  if (analysis.steps.size() < 3) return nullptr;
  const StepTimes& first = analysis.steps.front();
  const double part = first.duration / std::max(1.0, analysis.window.end - analysis.window.start);
  return first.duration > kLong * analysis.median_step && part > kWide ? &first : nullptr;
}

std::string run_chart(const Analysis& analysis) {
  constexpr double kHeight = 80;
  const StepTimes* left_out = long_first_step(analysis);
  const auto steps = std::span(analysis.steps).subspan(left_out == nullptr ? 0 : 1);
  TimeAxis axis{.shown = analysis.window, .zero = analysis.window.start};
  if (left_out != nullptr) axis.shown.start = axis.zero = left_out->end;
  if (steps.size() <= kMostMarks)
    for (const StepTimes& step : steps)
      axis.marks.push_back({.time = step.end, .text = "", .strong = false, .minor = true});
  double most = 1e-3;
  for (const StepTimes& step : steps) most = std::max(most, step.duration);
  Plot plot(kHeight + 6);
  plot.rect(0, 6, 1, kHeight, kBackground);
  for (const StepTimes& step : steps) {
    const double start = axis.x(step.end - step.duration);
    const double height = kHeight * step.duration / most;
    const double width = axis.x(step.end) - start;
    plot.rect(start + width * 0.08, 6 + kHeight - height, width * 0.84, height, kNeutral,
              fmt::format("step {}: {}", step.step, format_time(step.duration)),
              step.step != analysis.typical_step);
  }
  for (const double tick : ticks(most, 3)) {
    if (tick == 0) continue;
    const double y = 6 + kHeight * (1 - tick / most);
    plot.line(0, y, 1, y, "grid");
    plot.label(0, y, format_time(tick), "tick on-plot");
  }
  axis.draw_grid(plot, kHeight + 6);
  std::string rows = row("duration of steps", plot.finish("duration of the steps"),
                         fmt::format("steps {} to {}", steps.front().step, steps.back().step));
  for (const MemoryUse& held : analysis.held) rows += held_row(held, axis);
  for (const MemoryUse& memory : analysis.memory) rows += memory_row(memory, axis);
  return chart(rows + axis.times_row());
}

std::string placement_chart(const Analysis& analysis) {
  if (analysis.last_placement.empty()) return "";
  double params = 0;
  for (const SubgroupPlace& each : analysis.last_placement)
    params += static_cast<double>(each.params);
  const std::string travels = fill_of(ColorFamily::kRun, "update");
  const std::string stays = fill_of(ColorFamily::kMemory, "optimizer states");
  std::string rows;
  const auto add = [&](const char* name, bool on_device, int SubgroupPlace::*node) {
    Plot plot(kRow);
    plot.rect(0, kTop, 1, kBar, kBackground);
    double x = 0;
    for (const SubgroupPlace& each : analysis.last_placement) {
      const double width = static_cast<double>(each.params) / std::max(1.0, params);
      const int place = each.*node;
      if (place >= 0 && (place != 0) == on_device)
        plot.rect(x, kTop, width * 0.94, kBar, on_device && each.resident ? stays : travels,
                  fmt::format("{}: {} parameters", each.subgroup, each.params));
      x += width;
    }
    rows += row(name, plot.finish(name));
  };
  add("planned: devices", true, &SubgroupPlace::planned_node);
  add("planned: CPU", false, &SubgroupPlace::planned_node);
  add("executed: devices", true, &SubgroupPlace::executed_node);
  add("executed: CPU", false, &SubgroupPlace::executed_node);
  return chart(rows) +
         "<p class=\"note\">Plain: updated there. Ruled: updated there, and the "
         "states stay on the device.</p>\n";
}

}  // namespace dos::trace

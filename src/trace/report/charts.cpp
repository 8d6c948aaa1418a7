// SPDX-License-Identifier: Apache-2.0
#include "trace/report/charts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"
#include "trace/report/svg.hpp"

namespace dos::trace {
namespace {

constexpr double kBar = 18;
constexpr double kGap = 6;
/// Columns that a curve is drawn in: more points than these share one.
constexpr int kColumns = 500;

struct Frame {
  double top = 14;
  double height = 150;
  double most = 1;  ///< value at the top
  [[nodiscard]] double y(double value) const { return top + height * (1 - value / most); }
  [[nodiscard]] double bottom() const { return top + height; }
};

/// The largest point of each column, so that no peak is lost.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& curve, const Interval& window) {
  std::vector<MemoryPoint> result;
  const double column = std::max(1.0, (window.end - window.start) / kColumns);
  double until = window.start;
  for (MemoryPoint point : curve) {
    point.time = std::clamp(point.time, window.start, window.end);
    const bool same_column = !result.empty() && point.time < until;
    if (same_column) {
      if (point.total() > result.back().total()) result.back().bytes = point.bytes;
      continue;
    }
    until = point.time + column;
    result.push_back(std::move(point));
  }
  return result;
}

/// 1, 1024, 1024^2, ...: the largest that is at most `bytes`.
double binary_unit(double bytes) {
  double unit = 1;
  while (unit * 1024 <= bytes) unit *= 1024;
  return unit;
}

double x_of(double time, const Interval& window) {
  return kLeft + (time - window.start) / std::max(1.0, window.end - window.start) * kWidth;
}

void draw_byte_axis(Svg& svg, const Frame& frame) {
  svg.rect(kLeft, frame.top, kWidth, frame.height, "#f8f9fa");
  const double unit = binary_unit(frame.most);
  for (const double units : ticks(frame.most / unit, 4)) {
    const double y = frame.y(units * unit);
    svg.line(kLeft, y, kLeft + kWidth, y, "grid");
    svg.text(kLeft - 8, y + 4, format_bytes(static_cast<Index>(units * unit)), "end", "tick");
  }
}

/// An area a category, one on the other; those that appear.
std::vector<LegendEntry> draw_layers(Svg& svg, const Frame& frame,
                                     const std::vector<MemoryPoint>& curve,
                                     const Interval& window) {
  std::vector<double> base(curve.size(), 0);
  std::vector<LegendEntry> entries;
  for (const rt::MemoryCategory category : rt::kMemoryCategories) {
    const std::string name = rt::name_of(category);
    std::vector<std::pair<double, double>> outline;
    std::vector<std::pair<double, double>> lower;
    Index most = 0;
    for (std::size_t i = 0; i < curve.size(); ++i) {
      const auto found = curve[i].bytes.find(name);
      const Index bytes = found == curve[i].bytes.end() ? 0 : found->second;
      most = std::max(most, bytes);
      const double until = i + 1 < curve.size() ? curve[i + 1].time : window.end;
      for (const double time : {curve[i].time, until}) {
        lower.emplace_back(x_of(time, window), frame.y(base[i]));
        outline.emplace_back(x_of(time, window), frame.y(base[i] + static_cast<double>(bytes)));
      }
      base[i] += static_cast<double>(bytes);
    }
    if (most == 0) continue;
    outline.insert(outline.end(), lower.rbegin(), lower.rend());
    svg.polygon(outline, category_colour(name),
                fmt::format("{}: at most {}", name, format_bytes(most)));
    entries.push_back({name, category_colour(name)});
  }
  return entries;
}

}  // namespace

const char* use_colour(Use use) {
  switch (use) {
    case Use::kComputing:
      return "#4c9f70";
    case Use::kDram:
      return "#a8c686";
    case Use::kData:
      return "#c8553d";
    case Use::kDevice:
      return "#e6a15c";
    case Use::kHeldBack:
      return "#8e6bbf";
    case Use::kCheckpoint:
      return "#a63d6f";
    case Use::kRanks:
      return "#5b8fb9";
    case Use::kNoWork:
      return "#cfd5db";
  }
  return "#000000";
}

std::string use_chart(const Analysis& analysis) {
  Svg svg(kLeft + kWidth + kRight);
  double y = 4;
  for (const WorkerUse& worker : analysis.workers) {
    double total = 0;
    for (const double each : worker.time) total += each;
    svg.text(kLeft - 8, y + kBar * 0.72,
             worker.name.size() > 22 ? worker.name.substr(0, 21) + "…" : worker.name, "end",
             "lane");
    double x = kLeft;
    for (const Use use : kUses) {
      const double share = total > 0 ? worker.of(use) / total : 0;
      svg.rect(x, y, share * kWidth, kBar, use_colour(use),
               fmt::format("{}: {} {}", worker.name, name_of(use), format_share(share)));
      if (share > 0.06)
        svg.text(x + share * kWidth / 2, y + kBar * 0.72, fmt::format("{:.0f} %", share * 100),
                 "middle", "on-bar");
      x += share * kWidth;
    }
    y += kBar + kGap;
  }
  std::vector<LegendEntry> entries;
  for (const Use use : kUses) entries.push_back({name_of(use), use_colour(use)});
  return svg.finish(y, "what each worker's time went to") + legend(entries);
}

std::string memory_chart(const MemoryUse& memory, const Interval& window) {
  Svg svg(kLeft + kWidth + kRight);
  Frame frame;
  const auto peak = static_cast<double>(std::max<Index>(1, memory.peak));
  const bool capacity_fits = memory.capacity && static_cast<double>(*memory.capacity) <= 3 * peak;
  frame.most =
      capacity_fits ? std::max(peak, static_cast<double>(*memory.capacity)) * 1.05 : peak * 1.15;
  draw_byte_axis(svg, frame);
  const std::vector<LegendEntry> entries =
      draw_layers(svg, frame, thinned(memory.curve, window), window);
  if (capacity_fits) {
    const double y = frame.y(static_cast<double>(*memory.capacity));
    svg.line(kLeft, y, kLeft + kWidth, y, "limit");
    svg.text(kLeft + kWidth - 4, y - 4, "capacity " + format_bytes(*memory.capacity), "end",
             "tick");
  }
  for (const double tick : ticks(window.end - window.start, 8))
    svg.text(x_of(window.start + tick, window), frame.bottom() + 14, format_time(tick), "middle",
             "tick");
  return svg.finish(frame.bottom() + 20, "memory of " + memory.name) + legend(entries);
}

std::string link_chart(const LinkUse& link) {
  Svg svg(kLeft + kWidth + kRight);
  double y = 4;
  const double most = std::max(link.peak, 1.0);
  const auto bar = [&](const std::string& name, double rate, const std::string& colour) {
    svg.text(kLeft - 8, y + kBar * 0.72, name, "end", "lane");
    svg.rect(kLeft, y, kWidth, kBar, "#f1f3f5");
    svg.rect(kLeft, y, std::min(1.0, rate / most) * kWidth, kBar, colour,
             fmt::format("{}: {}", name, format_rate(rate)));
    svg.text(kLeft + std::min(0.75, rate / most) * kWidth + 6, y + kBar * 0.72,
             link.peak > 0
                 ? fmt::format("{} ({} of peak)", format_rate(rate), format_share(rate / link.peak))
                 : format_rate(rate),
             "start", "tick");
    y += kBar + kGap;
  };
  for (const auto& [phase, use] : link.phases)
    if (use.time > 0) bar(phase, use.bytes_per_s(), phase_colour(phase));
  bar("while it was busy", link.bytes_per_s(), phase_colour("transfer"));
  return svg.finish(y, "bandwidth of " + link.name);
}

std::string step_chart(const Analysis& analysis) {
  Svg svg(kLeft + kWidth + kRight);
  Frame frame;
  frame.height = 90;
  for (const StepTimes& step : analysis.steps) frame.most = std::max(frame.most, step.duration);
  for (const double tick : ticks(frame.most, 3)) {
    svg.line(kLeft, frame.y(tick), kLeft + kWidth, frame.y(tick), "grid");
    svg.text(kLeft - 8, frame.y(tick) + 4, format_time(tick), "end", "tick");
  }
  const auto count = static_cast<double>(analysis.steps.size());
  const double slot = kWidth / count;
  for (std::size_t i = 0; i < analysis.steps.size(); ++i) {
    const StepTimes& step = analysis.steps[i];
    const double y = frame.y(step.duration);
    svg.rect(kLeft + slot * (static_cast<double>(i) + 0.1), y, std::max(0.5, slot * 0.8),
             frame.bottom() - y, step.step == analysis.typical_step ? "#3572b0" : "#a9c3dd",
             fmt::format("step {}: {}", step.step, format_time(step.duration)));
  }
  svg.text(kLeft, frame.bottom() + 14, fmt::format("step {}", analysis.steps.front().step), "start",
           "tick");
  svg.text(kLeft + kWidth, frame.bottom() + 14, fmt::format("step {}", analysis.steps.back().step),
           "end", "tick");
  return svg.finish(frame.bottom() + 20, "duration of the steps");
}

std::string placement_chart(const Analysis& analysis) {
  if (analysis.last_placement.empty()) return "";
  Svg svg(kLeft + kWidth + kRight);
  double params = 0;
  for (const SubgroupPlace& each : analysis.last_placement)
    params += static_cast<double>(each.params);
  const auto colour = [](int node, bool resident) {
    if (node < 0) return "#cfd5db";
    if (node == 0) return "#3572b0";
    return resident ? "#b5651d" : "#e08e45";
  };
  svg.text(kLeft - 8, 18, "planned", "end", "lane");
  svg.text(kLeft - 8, 42, "executed", "end", "lane");
  double x = kLeft;
  for (const SubgroupPlace& each : analysis.last_placement) {
    const double width = static_cast<double>(each.params) / std::max(1.0, params) * kWidth;
    const std::string tooltip = fmt::format("{}: {} parameters", each.subgroup, each.params);
    svg.rect(x, 4, std::max(0.2, width - 0.5), 20, colour(each.planned_node, each.resident),
             tooltip);
    svg.rect(x, 28, std::max(0.2, width - 0.5), 20, colour(each.executed_node, each.resident),
             tooltip);
    x += width;
  }
  return svg.finish(54, "placement of the subgroups") +
         legend({{"CPU", "#3572b0"},
                 {"device, states travel", "#e08e45"},
                 {"device, states stay", "#b5651d"}});
}

}  // namespace dos::trace

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "trace/report/charts.hpp"
#include "trace/report/intervals.hpp"
#include "trace/report/svg.hpp"

namespace dos::trace {
namespace {

constexpr double kLane = 18;
constexpr double kGap = 5;
constexpr double kTop = 22;
/// Bars of one colour that are closer are drawn as one: nobody can see between them.
constexpr double kClosest = 0.4;
constexpr std::size_t kLongestName = 22;
/// What overlaps in a lane is drawn in rows of it; more could not be seen.
constexpr std::size_t kMostRows = 6;

struct Bar {
  double start;
  double end;
  std::string colour;
  std::string tooltip;
};

class Timeline {
 public:
  Timeline(Interval shown, double span_us)
      : shown_(shown), scale_(kWidth / std::max(1.0, span_us)), svg_(kLeft + kWidth + kRight) {}

  void add(const std::string& lane, Bar bar) {
    bar.start = std::max(bar.start, shown_.start);
    bar.end = std::min(bar.end, shown_.end);
    if (bar.start >= bar.end) return;
    bars_[lane].push_back(std::move(bar));
  }

  /// Lanes appear in the order in which they are named first.
  void lane(const std::string& name) { order_.push_back(name); }

  std::string draw(const std::string& label) {
    const double bottom = kTop + static_cast<double>(order_.size()) * (kLane + kGap);
    for (const double tick : ticks(kWidth / scale_, 8)) {
      const double x = kLeft + tick * scale_;
      svg_.line(x, kTop - 6, x, bottom, "grid");
      svg_.text(x, kTop - 9, format_time(tick), "middle", "tick");
    }
    double y = kTop;
    for (const std::string& name : order_) {
      draw_lane(name, y);
      y += kLane + kGap;
    }
    return svg_.finish(bottom + 4, label);
  }

 private:
  void draw_lane(const std::string& name, double y) {
    const std::string shown =
        name.size() <= kLongestName ? name : name.substr(0, kLongestName - 1) + "…";
    svg_.text(kLeft - 8, y + kLane * 0.72, shown, "end", "lane");
    svg_.rect(kLeft, y, kWidth, kLane, "#f1f3f5", name);
    std::vector<Bar>& bars = bars_[name];
    std::sort(bars.begin(), bars.end(),
              [](const Bar& a, const Bar& b) { return a.start < b.start; });
    std::vector<Interval> any;
    for (const Bar& bar : bars) any.push_back({bar.start, bar.end});
    const std::vector<std::size_t> rows = rows_of(any, kMostRows);
    std::vector<std::vector<Bar>> by_row;
    for (std::size_t i = 0; i < bars.size(); ++i) {
      by_row.resize(std::max(by_row.size(), rows[i] + 1));
      by_row[rows[i]].push_back(std::move(bars[i]));
    }
    const double height = kLane / static_cast<double>(std::max<std::size_t>(1, by_row.size()));
    for (std::size_t row = 0; row < by_row.size(); ++row)
      draw_row(by_row[row], y + static_cast<double>(row) * height, height);
  }

  void draw_row(const std::vector<Bar>& bars, double y, double height) {
    for (std::size_t i = 0; i < bars.size();) {
      Bar merged = bars[i];
      std::size_t next = i + 1;
      while (next < bars.size() && bars[next].colour == merged.colour &&
             (bars[next].start - merged.end) * scale_ < kClosest &&
             (merged.end - merged.start) * scale_ < 3)
        merged.end = std::max(merged.end, bars[next++].end);
      if (next > i + 1)
        merged.tooltip = fmt::format("{} of these", next - i) + " — " + merged.tooltip;
      svg_.rect(kLeft + (merged.start - shown_.start) * scale_, y,
                std::max(0.3, (merged.end - merged.start) * scale_), height, merged.colour,
                merged.tooltip);
      i = next;
    }
  }

  Interval shown_;
  double scale_;
  Svg svg_;
  std::vector<std::string> order_;
  std::map<std::string, std::vector<Bar>> bars_;
};

std::string of_rank(const Trace& trace, int rank, const std::string& name) {
  return trace.ranks.size() == 1 ? name : fmt::format("{}: {}", rank, name);
}

std::string worker_lane(const Trace& trace, int rank, const rt::MachineView::Worker& worker) {
  return of_rank(trace, rank, short_name(worker));
}

void add_tasks(const Trace& trace, Timeline& timeline) {
  for (const Manifest& manifest : trace.ranks)
    for (const auto& worker : manifest.machine.workers)
      timeline.lane(worker_lane(trace, manifest.rank, worker));
  for (const Task& task : trace.tasks) {
    const auto& worker =
        trace.rank(task.rank).machine.workers[static_cast<std::size_t>(task.worker)];
    timeline.add(worker_lane(trace, task.rank, worker),
                 {.start = task.start,
                  .end = task.end,
                  .colour = phase_colour(task.phase),
                  .tooltip = fmt::format("{} ({}), step {}, {}", task.codelet, task.label,
                                         task.step, format_time(task.duration()))});
  }
}

void add_links(const Trace& trace, const Analysis& analysis, Timeline& timeline) {
  std::map<std::tuple<int, int, int>, std::string> lanes;
  for (const LinkUse& link : analysis.links) {
    const std::string lane = of_rank(trace, link.rank, link.name);
    lanes[{link.rank, link.from, link.to}] = lane;
    timeline.lane(lane);
  }
  for (const Transfer& copy : trace.transfers) {
    const auto lane =
        lanes.find({copy.rank, static_cast<int>(copy.from), static_cast<int>(copy.to)});
    if (lane == lanes.end()) continue;
    timeline.add(lane->second,
                 {.start = copy.start,
                  .end = copy.end,
                  .colour = category_colour(copy.category),
                  .tooltip = fmt::format("{} ({}), {:.3g} MB, {}", copy.buffer, copy.category,
                                         static_cast<double>(copy.bytes) / 1e6,
                                         format_time(copy.end - copy.start))});
  }
}

void add_host(const Trace& trace, Timeline& timeline) {
  for (const Manifest& manifest : trace.ranks)
    timeline.lane(of_rank(trace, manifest.rank, "submitting thread"));
  for (const Span& span : trace.spans)
    timeline.add(of_rank(trace, span.rank, "submitting thread"),
                 {.start = span.start,
                  .end = span.end,
                  .colour = phase_colour(span.name),
                  .tooltip = fmt::format("{}, step {}, {}", span.name, span.step,
                                         format_time(span.end - span.start))});
  if (trace.communications.empty()) return;
  for (const Manifest& manifest : trace.ranks) timeline.lane(of_rank(trace, manifest.rank, "MPI"));
  for (const Communication& each : trace.communications)
    timeline.add(of_rank(trace, each.rank, "MPI"),
                 {.start = each.start,
                  .end = each.end,
                  .colour = phase_colour("reduce"),
                  .tooltip = fmt::format("{}, {:.3g} MB, {}", each.operation,
                                         static_cast<double>(each.bytes) / 1e6,
                                         format_time(each.end - each.start))});
}

}  // namespace

std::string timeline_chart(const Trace& trace, const Analysis& analysis, Index step,
                           double span_us) {
  const auto found = std::find_if(analysis.steps.begin(), analysis.steps.end(),
                                  [&](const StepTimes& each) { return each.step == step; });
  const Interval shown{found->start, found->end};
  Timeline timeline(shown, span_us > 0 ? span_us : shown.end - shown.start);
  add_tasks(trace, timeline);
  add_links(trace, analysis, timeline);
  add_host(trace, timeline);
  std::vector<LegendEntry> entries;
  for (const char* phase :
       {"forward", "backward", "reduce", "update", "validation", "checkpoint", "wait"})
    entries.push_back({phase, phase_colour(phase)});
  std::string text = timeline.draw(fmt::format("time line of step {}", step)) + legend(entries);
  if (analysis.links.empty()) return text;
  entries.clear();
  for (const char* category : {"parameters", "gradients", "optimizer states", "activations"})
    entries.push_back({std::string("link: ") + category, category_colour(category)});
  return text + legend(entries);
}

}  // namespace dos::trace

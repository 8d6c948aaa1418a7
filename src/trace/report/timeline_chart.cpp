// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "trace/report/charts.hpp"
#include "trace/report/intervals.hpp"
#include "trace/report/palette.hpp"

namespace dos::trace {
namespace {

constexpr double kRow = 23;
constexpr double kLane = 18;
constexpr double kTop = (kRow - kLane) / 2;
/// Of the plot's width. Bars of one colour that are closer are drawn as one: nobody can see between
/// them.
constexpr double kClosest = 0.0004;
constexpr double kNarrow = 0.003;
constexpr double kThinnest = 0.0003;
/// What is shown before the step and after it, so that its marks stand free.
constexpr double kMargin = 0.03;
/// What overlaps in a lane is drawn in rows of it; more could not be seen.
constexpr std::size_t kMostRows = 6;

struct Bar {
  double start;
  double end;
  std::string fill;
  std::string tooltip;
  bool pale = false;  ///< of another step
};

class Timeline {
 public:
  Timeline(TimeAxis axis, Index step) : axis_(std::move(axis)), step_(step) {}

  [[nodiscard]] Index step() const { return step_; }

  /// `name`: for the legend; "" needs none.
  void add(const std::string& lane, const std::string& name, Bar bar) {
    bar.start = std::max(bar.start, axis_.shown.start);
    bar.end = std::min(bar.end, axis_.shown.end);
    if (bar.start >= bar.end) return;
    ran_.insert(name);
    bars_[lane].push_back(std::move(bar));
  }

  /// Lanes appear in the order in which they are named first.
  void lane(const std::string& name) { order_.push_back(name); }

  std::string rows() {
    std::string text;
    for (const std::string& name : order_) text += draw_lane(name);
    return text;
  }

  [[nodiscard]] const TimeAxis& axis() const { return axis_; }
  [[nodiscard]] std::string legend_of_what_ran() const {
    return legend(ColorFamily::kRun, {ran_.begin(), ran_.end()});
  }

 private:
  std::string draw_lane(const std::string& name) {
    Plot plot(kRow);
    plot.rect(0, kTop, 1, kLane, kBackground);
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
    for (std::size_t i = 0; i < by_row.size(); ++i)
      draw_row(plot, by_row[i], kTop + static_cast<double>(i) * height, height);
    axis_.draw_grid(plot, kRow);
    return row(name, plot.finish(name));
  }

  void draw_row(Plot& plot, const std::vector<Bar>& bars, double y, double height) const {
    for (std::size_t i = 0; i < bars.size();) {
      Bar merged = bars[i];
      std::size_t next = i + 1;
      while (next < bars.size() && bars[next].fill == merged.fill &&
             bars[next].pale == merged.pale &&
             axis_.x(bars[next].start) - axis_.x(merged.end) < kClosest &&
             axis_.x(merged.end) - axis_.x(merged.start) < kNarrow)
        merged.end = std::max(merged.end, bars[next++].end);
      if (next > i + 1)
        merged.tooltip = fmt::format("{} of these", next - i) + " — " + merged.tooltip;
      const double x = axis_.x(merged.start);
      plot.rect(x, y, std::max(kThinnest, axis_.x(merged.end) - x), height, merged.fill,
                merged.tooltip, merged.pale);
      i = next;
    }
  }

  TimeAxis axis_;
  Index step_;
  std::vector<std::string> order_;
  std::map<std::string, std::vector<Bar>> bars_;
  std::set<std::string> ran_;
};

std::string of_rank(const Trace& trace, int rank, const std::string& name) {
  return trace.ranks.size() == 1 ? name : fmt::format("{}: {}", rank, name);
}

std::string worker_lane(const Trace& trace, int rank, const rt::MachineView::Worker& worker) {
  return of_rank(trace, rank, short_name(worker));
}

void add_tasks(const Trace& trace, Timeline& timeline) {
  for (const TraceManifest& manifest : trace.ranks)
    for (const auto& worker : manifest.machine.workers)
      timeline.lane(worker_lane(trace, manifest.rank, worker));
  for (const Task& task : trace.tasks) {
    const auto& worker =
        trace.rank(task.rank).machine.workers[static_cast<std::size_t>(task.worker)];
    timeline.add(worker_lane(trace, task.rank, worker), task.phase,
                 {.start = task.start,
                  .end = task.end,
                  .fill = fill_of(ColorFamily::kRun, task.phase),
                  .tooltip = fmt::format("{} ({}), step {}, {}", task.codelet, task.label,
                                         task.step, format_time(task.duration())),
                  .pale = task.step != 0 && task.step != timeline.step()});
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
    timeline.add(lane->second, "",
                 {.start = copy.start,
                  .end = copy.end,
                  .fill = fill_of(ColorFamily::kMemory, copy.category),
                  .tooltip = fmt::format("{} ({}), {:.3g} MB, {}", copy.buffer, copy.category,
                                         static_cast<double>(copy.bytes) / 1e6,
                                         format_time(copy.end - copy.start))});
  }
}

void add_host(const Trace& trace, Timeline& timeline) {
  for (const TraceManifest& manifest : trace.ranks)
    timeline.lane(of_rank(trace, manifest.rank, "submitting thread"));
  for (const Span& span : trace.spans)
    timeline.add(of_rank(trace, span.rank, "submitting thread"), span.name,
                 {.start = span.start,
                  .end = span.end,
                  .fill = fill_of(ColorFamily::kRun, span.name),
                  .tooltip = fmt::format("{}, step {}, {}", span.name, span.step,
                                         format_time(span.end - span.start))});
  if (trace.communications.empty()) return;
  for (const TraceManifest& manifest : trace.ranks)
    timeline.lane(of_rank(trace, manifest.rank, "MPI"));
  for (const Communication& each : trace.communications)
    timeline.add(of_rank(trace, each.rank, "MPI"), "message",
                 {.start = each.start,
                  .end = each.end,
                  .fill = fill_of(ColorFamily::kRun, "message"),
                  .tooltip = fmt::format("{}, {:.3g} MB, {}", each.operation,
                                         static_cast<double>(each.bytes) / 1e6,
                                         format_time(each.end - each.start))});
}

/// "write first_moment.blocks.0, checkpoint of step 3, 4.19 MB, 1.3 ms, 3.2 GB/s"
std::string describe(const Storage& row) {
  std::string text = fmt::format("{} {}, {} of step {}", row.operation, row.buffer,
                                 row.purpose.empty() ? "?" : row.purpose, row.step);
  const double time = row.end - row.start;
  if (row.bytes > 0) text += fmt::format(", {:.3g} MB", static_cast<double>(row.bytes) / 1e6);
  text += ", " + format_time(time);
  if (!row.disk.empty() && row.bytes > 0 && time > 0)
    text += ", " + format_rate(static_cast<double>(row.bytes) / time * 1e6);
  return text;
}

/// Who waited for storage, what was copied for it, and what each disk did. What was held is an area
/// (held_row()).
void add_storage(const Trace& trace, const Analysis& analysis, Timeline& timeline) {
  const auto add = [&](const Storage& row, const std::string& lane, const std::string& name) {
    timeline.add(of_rank(trace, row.rank, lane), name,
                 {.start = row.start,
                  .end = row.end,
                  .fill = name.empty() ? fill_of(ColorFamily::kMemory, row.category)
                                       : fill_of(ColorFamily::kRun, name),
                  .tooltip = describe(row)});
  };
  for (const MemoryUse& held : analysis.held) {
    timeline.lane(of_rank(trace, held.rank, "updates waiting"));
    timeline.lane(of_rank(trace, held.rank, "copies"));
  }
  for (const DiskUse& disk : analysis.disks)
    timeline.lane(of_rank(trace, disk.rank, disk.operation + ' ' + disk.disk));
  for (const Storage& row : trace.storage) {
    if (row.operation == "wait") add(row, "updates waiting", "checkpoint");
    if (row.operation == "copy") add(row, "copies", "");
    if (row.operation == "flush") add(row, "write " + row.disk, "flush");
    if (row.operation == "read" || row.operation == "write")
      add(row, row.operation + ' ' + row.disk, "");
  }
}

/// The step, what runs shortly before and after it, and where it and those beside it begin and end.
TimeAxis axis_of(const Analysis& analysis, const StepTimes& step, double span_us) {
  const double span = std::max(1e-3, span_us > 0 ? span_us : step.end - step.start);
  TimeAxis axis{.shown = {step.start - span * kMargin, step.start + span * (1 + kMargin)},
                .zero = step.start};
  for (const StepTimes& each : analysis.steps) {
    const bool strong = each.step == step.step;
    for (const auto& [time, what] : {std::pair{each.start, "starts"}, std::pair{each.end, "ends"}})
      if (time >= axis.shown.start && time <= axis.shown.end)
        axis.marks.push_back({time, fmt::format("step {} {}", each.step, what), strong});
  }
  return axis;
}

}  // namespace

std::string iteration_chart(const Trace& trace, const Analysis& analysis, Index step,
                            double span_us) {
  const auto found = std::find_if(analysis.steps.begin(), analysis.steps.end(),
                                  [&](const StepTimes& each) { return each.step == step; });
  Timeline timeline(axis_of(analysis, *found, span_us), step);
  add_tasks(trace, timeline);
  add_links(trace, analysis, timeline);
  add_host(trace, timeline);
  add_storage(trace, analysis, timeline);
  std::string rows = timeline.axis().names_row() + timeline.axis().times_row() + timeline.rows();
  for (const MemoryUse& held : analysis.held) rows += held_row(held, timeline.axis());
  for (const MemoryUse& memory : analysis.memory) rows += memory_row(memory, timeline.axis());
  return chart(rows + timeline.axis().times_row()) + timeline.legend_of_what_ran() +
         memory_legend(trace, analysis);
}

}  // namespace dos::trace

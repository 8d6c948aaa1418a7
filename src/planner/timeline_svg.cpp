// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/xml.hpp"
#include "planner/timeline.hpp"

namespace dos::planner {
namespace {

constexpr double kLeft = 110;
constexpr double kWidth = 860;
constexpr double kLane = 20;
constexpr double kMemory = 50;
constexpr double kTop = 40;
/// More CPU workers than these are drawn as one area.
constexpr Index kMostWorkers = 8;

const char* colour_of(sched::Work work) {
  switch (work) {
    case sched::Work::kCpuUpdate:
      return "#4878a8";
    case sched::Work::kDowncast:
      return "#9a6fb0";
    case sched::Work::kGpuUpdate:
    case sched::Work::kPass:
      return "#5a9e5a";
    case sched::Work::kStateIn:
      return "#d08a3c";
    case sched::Work::kStateOut:
      return "#c05a50";
    case sched::Work::kWeightIn:
      return "#e8c860";
    case sched::Work::kGradientOut:
    case sched::Work::kGradientIn:
      return "#9c9c9c";
    case sched::Work::kParameterOut:
      return "#e09a90";
  }
  return "#000000";
}

class Drawing {
 public:
  Drawing(const sched::Problem& problem, const sched::Replay& replay)
      : problem_(problem), replay_(replay), scale_(kWidth / replay.makespan.value()) {
    for (const sched::Activity& activity : replay.activities)
      workers_ = std::max(workers_, activity.worker + 1);
    cpu_lanes_ = std::min(workers_, kMostWorkers);
  }

  std::string draw(const sched::Plan& plan, const std::string& title) {
    lay_out();
    for (const sched::Activity& activity : replay_.activities)
      if (!(activity.worker >= 0 && workers_ > kMostWorkers)) add_bar(activity);
    if (workers_ > kMostWorkers) draw_workers();
    for (Index g = 0; g < problem_.gpus(); ++g) draw_memory(g);
    draw_bound(plan);
    const double height = bottom_ + 34;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
               "font-family=\"sans-serif\" font-size=\"11\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
               "<text x=\"8\" y=\"20\" font-size=\"13\">{}</text>\n",
               kLeft + kWidth + 20, height, xml_escaped(title)) +
           body_ + legend(height - 10) + "</svg>\n";
  }

 private:
  [[nodiscard]] double x(units::Seconds time) const { return kLeft + time.value() * scale_; }

  void lay_out() {
    double y = kTop;
    const auto lane = [&](const std::string& name, double height) {
      top_[name] = y;
      body_ += fmt::format("<text x=\"8\" y=\"{:.0f}\">{}</text>\n", y + kLane * 0.7, name);
      y += height + 4;
    };
    if (workers_ > 0) lane("cpu", kLane * static_cast<double>(cpu_lanes_));
    for (const sched::Activity& activity : replay_.activities)
      if (activity.work == sched::Work::kDowncast && !top_.contains("downcast"))
        lane("downcast", kLane);
    for (Index g = 0; g < problem_.gpus(); ++g) {
      lane(problem_.name_of_way(g, /*in=*/true), kLane);
      lane(problem_.name_of_tier(g) + " update", kLane);
      lane(problem_.name_of_way(g, /*in=*/false), kLane);
      lane(problem_.name_of_tier(g) + " states", kMemory);
    }
    for (Index tier = problem_.gpus(); tier < problem_.tiers(); ++tier)
      for (const bool in : {false, true}) lane(problem_.name_of_way(tier, in), kLane);
    bottom_ = y;
  }

  [[nodiscard]] double lane_top(const sched::Activity& activity) const {
    const double top = top_.at(sched::track_of(problem_, activity));
    return activity.work == sched::Work::kCpuUpdate
               ? top + kLane * static_cast<double>(activity.worker)
               : top;
  }

  void add_bar(const sched::Activity& activity) {
    const double width = (activity.end - activity.start).value() * scale_;
    body_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\" "
        "stroke=\"white\" stroke-width=\"0.3\"/>\n",
        x(activity.start), lane_top(activity), std::max(width, 0.2), kLane - 2,
        colour_of(activity.work));
  }

  /// The number of workers at work, as an area.
  void draw_workers() {
    std::map<double, Index> changes;
    for (const sched::Activity& activity : replay_.activities) {
      if (activity.work != sched::Work::kCpuUpdate) continue;
      ++changes[activity.start.value()];
      --changes[activity.end.value()];
    }
    const double height = kLane * static_cast<double>(cpu_lanes_);
    const double base = top_.at("cpu") + height;
    std::string path = fmt::format("M{:.2f} {:.1f}", kLeft, base);
    Index busy = 0;
    for (const auto& [time, change] : changes) {
      busy += change;
      path +=
          fmt::format(" H{:.2f} V{:.1f}", kLeft + time * scale_,
                      base - height * static_cast<double>(busy) / static_cast<double>(workers_));
    }
    body_ += fmt::format("<path d=\"{} V{:.1f} Z\" fill=\"{}\"/>\n", path, base,
                         colour_of(sched::Work::kCpuUpdate));
  }

  void draw_memory(Index g) {
    const double top = top_.at(fmt::format("gpu {} states", g));
    const double peak = replay_.memory_peak[static_cast<std::size_t>(g)].value();
    if (peak == 0) return;
    std::string path = fmt::format("M{:.2f} {:.1f}", kLeft, top + kMemory);
    for (const sched::MemoryPoint& point : replay_.memory[static_cast<std::size_t>(g)])
      path += fmt::format(" H{:.2f} V{:.1f}", x(point.time),
                          top + kMemory * (1 - point.bytes.value() / peak));
    body_ += fmt::format(
        "<path d=\"{} H{:.2f} V{:.1f} Z\" fill=\"#c8d8c8\" stroke=\"#5a9e5a\"/>\n"
        "<text x=\"8\" y=\"{:.0f}\">peak {:.2f} GB</text>\n",
        path, kLeft + kWidth, top + kMemory, top + kLane * 1.5, peak / 1e9);
  }

  void draw_bound(const sched::Plan& plan) {
    const double at = x(plan.bound.time);
    body_ += fmt::format(
        "<line x1=\"{0:.2f}\" y1=\"{1:.0f}\" x2=\"{0:.2f}\" y2=\"{2:.0f}\" stroke=\"black\" "
        "stroke-dasharray=\"4 3\"/>\n<text x=\"{0:.2f}\" y=\"{3:.0f}\" text-anchor=\"end\">bound "
        "{4:.1f} ms, replay {5:.1f} ms </text>\n",
        at, kTop - 6, bottom_, kTop - 8, plan.bound.time.value() * 1e3,
        replay_.makespan.value() * 1e3);
  }

  [[nodiscard]] std::string legend(double y) const {
    using enum sched::Work;
    std::string text;
    double at = kLeft;
    for (const sched::Work work : {kCpuUpdate, kDowncast, kGpuUpdate, kStateIn, kStateOut,
                                   kWeightIn, kGradientOut, kGradientIn, kParameterOut}) {
      const bool seen = std::any_of(replay_.activities.begin(), replay_.activities.end(),
                                    [&](const auto& each) { return each.work == work; });
      if (!seen) continue;
      text += fmt::format(
          "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"10\" height=\"10\" fill=\"{}\"/>"
          "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
          at, y - 9, colour_of(work), at + 14, y, name_of(work));
      at += 110;
    }
    return text;
  }

  const sched::Problem& problem_;
  const sched::Replay& replay_;
  double scale_;
  Index workers_ = 0;
  Index cpu_lanes_ = 0;
  double bottom_ = 0;
  std::map<std::string, double> top_;
  std::string body_;
};

}  // namespace

std::string timeline_svg(const sched::Problem& problem, const sched::Plan& plan,
                         const sched::Replay& replay, const std::string& title) {
  return Drawing(problem, replay).draw(plan, title);
}

}  // namespace dos::planner
#include "base/xml.hpp"

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "planner/timeline.hpp"

namespace dos::planner {
namespace {

constexpr std::size_t kColumns = 64;
constexpr std::array kLevels{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

using Line = std::array<double, kColumns>;

/// Adds the part of each column that [from, to) covers; times in columns.
void cover(Line& line, double from, double to, double weight) {
  const auto first = static_cast<std::size_t>(std::max(0.0, std::floor(from)));
  for (std::size_t c = first; c < kColumns && static_cast<double>(c) < to; ++c) {
    const double begin = std::max(from, static_cast<double>(c));
    const double end = std::min(to, static_cast<double>(c) + 1);
    line[c] += weight * std::max(0.0, end - begin);
  }
}

std::string draw(const std::string& name, const Line& line) {
  std::string text = fmt::format("  {:<14}|", name);
  for (const double value : line) {
    const double level = std::clamp(value, 0.0, 1.0) * (kLevels.size() - 1);
    // What is busy at all must show.
    text +=
        kLevels[value > 0 ? std::max<std::size_t>(1, static_cast<std::size_t>(level + 0.5)) : 0];
  }
  return text + "|\n";
}

}  // namespace

std::string timeline_text(const sched::Problem& problem, const sched::Replay& replay) {
  const double scale = kColumns / replay.makespan.value();
  double workers = 1;
  for (const sched::Activity& activity : replay.activities)
    workers = std::max(workers, static_cast<double>(activity.worker + 1));
  std::map<std::string, Line> lines;
  for (const sched::Activity& activity : replay.activities) {
    const bool cpu = activity.work == sched::Work::kCpuUpdate;
    cover(lines[sched::track_of(problem, activity)], activity.start.value() * scale,
          activity.end.value() * scale, cpu ? 1 / workers : 1);
  }
  std::string text = fmt::format("timeline of {:.1f} ms\n", replay.makespan.value() * 1e3);
  for (const auto& [name, line] : lines) text += draw(name, line);
  for (Index g = 0; g < problem.gpus(); ++g) {
    const auto& points = replay.memory[static_cast<std::size_t>(g)];
    const double peak = replay.memory_peak[static_cast<std::size_t>(g)].value();
    if (peak == 0) continue;
    Line line{};
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double end =
          i + 1 < points.size() ? points[i + 1].time.value() : replay.makespan.value();
      cover(line, points[i].time.value() * scale, end * scale, points[i].bytes.value() / peak);
    }
    text += draw(fmt::format("gpu {} states", g), line);
    text += fmt::format("  {:<14} peak {:.2f} GB\n", "", peak / 1e9);
  }
  return text;
}

}  // namespace dos::planner

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/units.hpp"
#include "rt/memory_ledger.hpp"
#include "trace/report/charts.hpp"
#include "trace/report/palette.hpp"

namespace dos::trace {
namespace {

/// Columns that a curve is drawn in: more points than these share one.
constexpr int kColumns = 500;
constexpr double kTop = 16;
constexpr double kHeight = 96;
constexpr double kBottom = kTop + kHeight;

/// What held when the shown time began, and of each column from then on the largest point, so that
/// no peak is lost, and the last one.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& curve, const Interval& shown) {
  std::vector<MemoryPoint> result;
  const double column = std::max(1e-3, (shown.end - shown.start) / kColumns);
  double until = shown.start;
  std::optional<MemoryPoint> last;  // of the column, if it is not the largest
  const auto end_column = [&] {
    if (!last) return;
    last->time = std::min(until, shown.end);
    result.push_back(*std::exchange(last, std::nullopt));
  };
  for (MemoryPoint point : curve) {
    if (point.time >= shown.end) break;
    if (point.time <= shown.start) {
      point.time = shown.start;
      result.assign(1, std::move(point));
      continue;
    }
    if (!result.empty() && point.time < until) {
      last = point;
      if (point.total() <= result.back().total()) continue;
      result.back().bytes = point.bytes;
      last.reset();
      continue;
    }
    end_column();
    until = point.time + column;
    result.push_back(std::move(point));
  }
  end_column();
  return result;
}

/// 1, 1024, 1024^2, ...: the largest that is at most `bytes`.
double binary_unit(double bytes) {
  double unit = 1;
  while (unit * 1024 <= bytes) unit *= 1024;
  return unit;
}

/// Pixels from above; `most` is at the top.
double y_of(double bytes, double most) {
  return kTop + kHeight * (1 - bytes / most);
}

/// An area a category, one on the other.
void draw_layers(Plot& plot, const std::vector<MemoryPoint>& curve, const TimeAxis& axis,
                 double top) {
  std::vector<double> base(curve.size(), 0);
  for (const MemoryCategory category : kBufferCategories) {
    const std::string name = name_of(category);
    std::vector<std::pair<double, double>> outline;
    std::vector<std::pair<double, double>> lower;
    Index most = 0;
    for (std::size_t i = 0; i < curve.size(); ++i) {
      const auto found = curve[i].bytes.find(name);
      const Index bytes = found == curve[i].bytes.end() ? 0 : found->second;
      most = std::max(most, bytes);
      const double until = i + 1 < curve.size() ? curve[i + 1].time : axis.shown.end;
      for (const double time : {curve[i].time, until}) {
        lower.emplace_back(axis.x(time), y_of(base[i], top));
        outline.emplace_back(axis.x(time), y_of(base[i] + static_cast<double>(bytes), top));
      }
      base[i] += static_cast<double>(bytes);
    }
    if (most == 0) continue;
    outline.insert(outline.end(), lower.rbegin(), lower.rend());
    plot.polygon(outline, fill_of(ColorFamily::kMemory, name),
                 fmt::format("{}: at most {}", name, format_bytes(most)));
  }
}

std::string area_row(const std::string& name, const MemoryUse& memory, const TimeAxis& axis) {
  Plot plot(kBottom + 6);
  const auto peak = static_cast<double>(std::max<Index>(1, memory.peak));
  const bool shows_capacity = memory.capacity && static_cast<double>(*memory.capacity) <= 3 * peak;
  const double top =
      shows_capacity ? std::max(peak, static_cast<double>(*memory.capacity)) * 1.05 : peak * 1.15;
  plot.rect(0, kTop, 1, kHeight, kBackground);
  draw_layers(plot, thinned(memory.curve, axis.shown), axis, top);
  const double unit = binary_unit(top);
  for (const double units : ticks(top / unit, 3)) {
    if (units == 0) continue;
    const double y = y_of(units * unit, top);
    plot.line(0, y, 1, y, "grid");
    plot.label(0, y, format_bytes(static_cast<Index>(units * unit)), "tick on-plot");
  }
  axis.draw_grid(plot, kBottom + 6);
  if (shows_capacity) {
    const double y = y_of(static_cast<double>(*memory.capacity), top);
    plot.line(0, y, 1, y, "limit");
    plot.label(1, y + 8, "capacity " + format_bytes(*memory.capacity), "tick on-plot");
  }
  return row(memory.rank > 0 ? fmt::format("{}: {}", memory.rank, name) : name, plot.finish(name));
}

}  // namespace

std::string memory_row(const MemoryUse& memory, const TimeAxis& axis) {
  return area_row("memory " + memory.name, memory, axis);
}

std::string held_row(const MemoryUse& held, const TimeAxis& axis) {
  return area_row(held.name, held, axis);
}

std::string memory_legend(const Trace& trace, const Analysis& analysis) {
  std::vector<std::string> appear;
  const auto add = [&](const std::string& category) {
    if (std::find(appear.begin(), appear.end(), category) == appear.end())
      appear.push_back(category);
  };
  for (const MemoryUse& memory : analysis.memory)
    for (const MemoryPoint& point : memory.curve)
      for (const auto& [category, bytes] : point.bytes)
        if (bytes > 0) add(category);
  for (const Transfer& copy : trace.transfers) add(copy.category);
  for (const Storage& row : trace.storage) add(row.category);
  return legend(ColorFamily::kMemory, appear);
}

}  // namespace dos::trace

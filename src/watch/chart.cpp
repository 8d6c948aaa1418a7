// SPDX-License-Identifier: Apache-2.0
#include "watch/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/xml.hpp"

namespace dos::watch {
namespace {

// Of the drawing, in its own units.
constexpr double kWidth = 720;
constexpr double kHeight = 278;
constexpr double kLeft = 92;
constexpr double kRight = 712;
constexpr double kTop = 18;
constexpr double kBottom = 244;
constexpr int kTicks = 5;

/// Of values, relative to them: less is not drawn, and ticks between could not be told apart.
constexpr double kLeastChange = 1e-9;
/// Beyond it sums and differences would leave what double can hold.
constexpr double kMostValue = 1e100;

/// Okabe's and Ito's, which colour-blind readers can tell apart, and dashes for those who see none.
struct Style {
  std::string_view colour;
  std::string_view dashes;
};
constexpr std::array kStyles{Style{"#0072B2", ""},    Style{"#D55E00", "8 4"},
                             Style{"#009E73", "3 3"}, Style{"#CC79A7", "10 3 3 3"},
                             Style{"#56B4E9", ""},    Style{"#E69F00", "8 4"}};

const Style& style_of(std::size_t index) {
  return kStyles[index % kStyles.size()];
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

Range range_of(const std::vector<Series>& series, Scale scale) {
  Range range;
  for (const Series& each : series)
    for (const auto& [step, value] : each.points) {
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
    }
  if (!(range.low <= range.high)) return range;
  if (scale != Scale::kValues) range.low = std::min(range.low, 0.0);
  if (scale == Scale::kShare) range.high = std::max(range.high, 1.0);
  if (range.high - range.low <=
      kLeastChange * std::max(std::abs(range.low), std::abs(range.high))) {
    // A line that never moves is in the middle.
    const double around = range.low == 0 ? 1 : std::abs(range.low) / 2;
    range = {range.low - around, range.high + around};
  }
  return range;
}

/// Round numbers within the range.
std::vector<double> ticks_of(const Range& range) {
  const double raw = (range.high - range.low) / kTicks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double digit = raw / power;
  const double step = power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
  std::vector<double> ticks;
  for (double at = std::ceil(range.low / step); at * step <= range.high; ++at)
    ticks.push_back(at == 0 ? 0 : at * step);
  return ticks;
}

/// Where a chart's values lie in its drawing.
struct Axes {
  Range range;
  Index first = 0;
  Index last = 0;

  [[nodiscard]] double x(Index step) const {
    return kLeft + (kRight - kLeft) * static_cast<double>(step - first) /
                       static_cast<double>(std::max<Index>(last - first, 1));
  }
  [[nodiscard]] double y(double value) const {
    return kTop + (kBottom - kTop) * (range.high - value) / (range.high - range.low);
  }
};

std::string grid(const Axes& axes, Scale scale) {
  std::string text;
  for (const double tick : ticks_of(axes.range)) {
    const std::string name = scale == Scale::kShare ? fmt::format("{:.0f} %", 100 * tick)
                             : std::abs(tick) >= 1e4 && std::abs(tick) < 1e15
                                 ? fmt::format("{:.0f}", tick)
                                 : fmt::format("{:.4g}", tick);
    text += fmt::format(
        "<line x1=\"{0:.0f}\" y1=\"{1:.1f}\" x2=\"{2:.0f}\" y2=\"{1:.1f}\"/><text x=\"{3:.0f}\" "
        "y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>",
        kLeft, axes.y(tick), kRight, kLeft - 8, axes.y(tick) + 6, name);
  }
  return text + fmt::format(
                    "<rect x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"{2:.0f}\" height=\"{3:.0f}\"/>"
                    "<text x=\"{0:.0f}\" y=\"{4:.0f}\">step {5}</text><text x=\"{6:.0f}\" "
                    "y=\"{4:.0f}\" text-anchor=\"end\">{7}</text>",
                    kLeft, kTop, kRight - kLeft, kBottom - kTop, kHeight - 10, axes.first, kRight,
                    axes.last);
}

std::string drawn(const Series& series, const Axes& axes, const Style& style) {
  std::string text;
  if (!series.is_dots) {
    text = fmt::format("<polyline stroke=\"{}\" stroke-dasharray=\"{}\" points=\"", style.colour,
                       style.dashes);
    for (const auto& [step, value] : series.points)
      text += fmt::format("{:.1f},{:.1f} ", axes.x(step), axes.y(value));
    text += "\"/>";
  }
  // A line of one point would be none.
  if (series.is_dots || series.points.size() == 1)
    for (const auto& [step, value] : series.points)
      text += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>",
                          axes.x(step), axes.y(value), style.colour);
  return text;
}

/// Names of the series, beside what they are drawn with; "" for a single line.
std::string legend(const std::vector<Series>& series) {
  if (series.size() == 1 && !series.front().is_dots) return "";
  std::string text;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (series[i].points.empty()) continue;
    const Style& style = style_of(i);
    text += fmt::format(
        " <span><svg class=\"key\" viewBox=\"0 0 24 10\">{}</svg>{}</span>",
        series[i].is_dots
            ? fmt::format("<circle cx=\"12\" cy=\"5\" r=\"3.5\" fill=\"{}\"/>", style.colour)
            : fmt::format("<polyline stroke=\"{}\" stroke-dasharray=\"{}\" points=\"0,5 24,5\"/>",
                          style.colour, style.dashes),
        xml_escaped(series[i].name));
  }
  return text;
}

}  // namespace

std::vector<Point> thinned(const std::vector<Point>& points) {
  std::vector<Point> finite;
  std::ranges::copy_if(points, std::back_inserter(finite),
                       [](const Point& each) { return std::abs(each.second) <= kMostValue; });
  if (finite.size() <= kMostPoints) return finite;
  std::vector<Point> means;
  for (std::size_t i = 0; i < kMostPoints; ++i) {
    const std::size_t begin = finite.size() * i / kMostPoints;
    const std::size_t end = finite.size() * (i + 1) / kMostPoints;
    double sum = 0;
    for (std::size_t at = begin; at < end; ++at) sum += finite[at].second;
    means.emplace_back(finite[end - 1].first, sum / static_cast<double>(end - begin));
  }
  return means;
}

std::string chart(const std::string& title, const std::vector<Series>& series, Scale scale,
                  Index first, Index last) {
  std::vector<Series> shown = series;
  for (Series& each : shown) {
    each.points = thinned(each.points);
    if (scale != Scale::kShare) continue;
    for (auto& [step, value] : each.points) value = std::clamp(value, 0.0, 1.0);
  }
  const Axes axes{.range = range_of(shown, scale), .first = first, .last = last};
  if (!(axes.range.low <= axes.range.high)) return "";
  std::string lines;
  for (std::size_t i = 0; i < shown.size(); ++i)
    if (!shown[i].points.empty()) lines += drawn(shown[i], axes, style_of(i));
  return fmt::format(
      "<figure><figcaption><b>{0}</b>{1}</figcaption><svg viewBox=\"0 0 {2:.0f} {3:.0f}\" "
      "role=\"img\"><title>{0}</title>{4}{5}</svg></figure>\n",
      xml_escaped(title), legend(shown), kWidth, kHeight, grid(axes, scale), lines);
}

}  // namespace dos::watch

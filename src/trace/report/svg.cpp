// SPDX-License-Identifier: Apache-2.0
#include "trace/report/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/xml.hpp"

namespace dos::trace {
namespace {

/// Units of a plot's width in its own coordinates.
constexpr double kWidth = 1000;
constexpr double kTickRow = 18;
constexpr int kTicks = 8;

}  // namespace

std::string format_time(double micros) {
  if (micros >= 1e6) return fmt::format("{:.3g} s", micros / 1e6);
  if (micros >= 1e3) return fmt::format("{:.3g} ms", micros / 1e3);
  return fmt::format("{:.3g} us", micros);
}

std::string format_rate(double bytes_per_s) {
  if (bytes_per_s >= 1e9) return fmt::format("{:.3g} GB/s", bytes_per_s / 1e9);
  if (bytes_per_s >= 1e6) return fmt::format("{:.3g} MB/s", bytes_per_s / 1e6);
  return fmt::format("{:.3g} kB/s", bytes_per_s / 1e3);
}

std::string format_share(double share) {
  return fmt::format("{:.1f} %", share * 100);
}

void Plot::rect(double x, double y, double width, double height, std::string_view fill,
                std::string_view tooltip, bool pale) {
  shapes_ += fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"{}",
      x * kWidth, y, width * kWidth, height, fill, pale ? " opacity=\"0.35\"" : "");
  shapes_ +=
      tooltip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", xml_escaped(tooltip));
}

void Plot::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  shapes_ +=
      fmt::format("<line x1=\"{:.2f}\" y1=\"{:.1f}\" x2=\"{:.2f}\" y2=\"{:.1f}\" class=\"{}\"/>\n",
                  x1 * kWidth, y1, x2 * kWidth, y2, css_class);
}

void Plot::polygon(const std::vector<std::pair<double, double>>& points, std::string_view fill,
                   std::string_view tooltip) {
  shapes_ += fmt::format("<polygon fill=\"{}\" points=\"", fill);
  for (const auto& [x, y] : points) shapes_ += fmt::format("{:.2f},{:.1f} ", x * kWidth, y);
  shapes_ += fmt::format("\"><title>{}</title></polygon>\n", xml_escaped(tooltip));
}

void Plot::label(double x, double y, std::string_view what, std::string_view css_class) {
  const bool centred = css_class.find("centred") != std::string_view::npos;
  const bool from_right = !centred && x > 0.5;
  labels_ += fmt::format("<span class=\"{}\" style=\"{}:{:.2f}%;top:{:.1f}px\">{}</span>\n",
                         css_class, from_right ? "right" : "left", (from_right ? 1 - x : x) * 100,
                         y, xml_escaped(what));
}

std::string Plot::finish(std::string_view label) const {
  return fmt::format(
      "<div class=\"plot\" style=\"height:{0:.0f}px\"><svg viewBox=\"0 0 {1:.0f} {0:.0f}\" "
      "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{2}\">\n{3}</svg>\n{4}</div>",
      height_, kWidth, xml_escaped(label), shapes_, labels_);
}

std::string row(std::string_view name, const std::string& plot, std::string_view tooltip) {
  return fmt::format("<div class=\"name\" title=\"{}\">{}</div>{}\n",
                     xml_escaped(tooltip.empty() ? name : tooltip), xml_escaped(name), plot);
}

std::string chart(const std::string& rows) {
  return "<div class=\"chart\">\n" + rows + "</div>\n";
}

double TimeAxis::x(double time) const {
  return (time - shown.start) / std::max(1e-3, shown.end - shown.start);
}

void TimeAxis::draw_grid(Plot& plot, double height) const {
  for (const double tick : ticks(shown.end - zero, kTicks))
    plot.line(x(zero + tick), 0, x(zero + tick), height, "grid");
  for (const Mark& mark : marks)
    plot.line(x(mark.time), 0, x(mark.time), height,
              mark.strong  ? "mark"
              : mark.minor ? "weak mark minor"
                           : "weak mark");
}

std::string TimeAxis::names_row() const {
  Plot names(kTickRow);
  bool has_names = false;
  for (const Mark& mark : marks) {
    if (!mark.strong) continue;
    has_names = true;
    names.line(x(mark.time), 0, x(mark.time), kTickRow, "mark");
    names.label(x(mark.time), kTickRow / 2, mark.text, "mark");
  }
  return has_names ? row("", names.finish("marks")) : "";
}

std::string TimeAxis::times_row() const {
  Plot times(kTickRow);
  const std::vector<double> all = ticks(shown.end - zero, kTicks);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double at = x(zero + all[i]);
    if (at > 0.97) continue;  // its name would leave the page
    times.label(at, kTickRow / 2, format_time(all[i]),
                fmt::format("tick{}{}", at < 0.03 ? "" : " centred", i % 2 == 0 ? "" : " minor"));
  }
  return row("", times.finish("time"));
}

std::vector<double> ticks(double end, int count) {
  if (!(end > 0)) return {0};
  const double raw = end / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double digit = raw / power;
  const double step = power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
  std::vector<double> result;
  for (int i = 0; i * step <= end * (1 + 1e-9); ++i) result.push_back(i * step);
  return result;
}

}  // namespace dos::trace
#include "base/xml.hpp"

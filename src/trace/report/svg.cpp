// SPDX-License-Identifier: Apache-2.0
#include "trace/report/svg.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

namespace dos::trace {
namespace {

struct Colour {
  std::string_view name;
  const char* value;
};
constexpr const char* kOther = "#9aa3ad";

template <std::size_t n>
const char* find(const std::array<Colour, n>& colours, std::string_view name) {
  for (const Colour& each : colours)
    if (each.name == name) return each.value;
  return kOther;
}

std::string with_tooltip(std::string_view tooltip) {
  return tooltip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escaped(tooltip));
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char each : text) {
    if (each == '&')
      result += "&amp;";
    else if (each == '<')
      result += "&lt;";
    else if (each == '>')
      result += "&gt;";
    else if (each == '"')
      result += "&quot;";
    else
      result += each;
  }
  return result;
}

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

void Svg::rect(double x, double y, double width, double height, std::string_view colour,
               std::string_view tooltip) {
  body_ +=
      fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"",
                  x, y, width, height, colour) +
      with_tooltip(tooltip);
}

void Svg::text(double x, double y, std::string_view what, std::string_view anchor,
               std::string_view css_class) {
  body_ +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", x,
                  y, anchor, css_class, escaped(what));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  body_ +=
      fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n",
                  x1, y1, x2, y2, css_class);
}

void Svg::polygon(const std::vector<std::pair<double, double>>& points, std::string_view colour,
                  std::string_view tooltip) {
  body_ += fmt::format("<polygon fill=\"{}\" points=\"", colour);
  for (const auto& [x, y] : points) body_ += fmt::format("{:.1f},{:.1f} ", x, y);
  body_ += fmt::format("\"><title>{}</title></polygon>\n", escaped(tooltip));
}

std::string Svg::finish(double height, std::string_view label) const {
  return fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" aria-label=\"{2}\">\n{3}</svg>\n", width_,
      height, escaped(label), body_);
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

std::string legend(const std::vector<LegendEntry>& entries) {
  std::string text = "<p class=\"legend\">";
  for (const LegendEntry& each : entries)
    text += fmt::format("<span><i style=\"background:{}\"></i>{}</span>\n", each.colour,
                        escaped(each.name));
  return text + "</p>\n";
}

const char* phase_colour(std::string_view phase) {
  static constexpr std::array kColours{
      Colour{"forward", "#4c9f70"},    Colour{"backward", "#e08e45"},
      Colour{"reduce", "#8e6bbf"},     Colour{"update", "#3572b0"},
      Colour{"validation", "#6bb7c4"}, Colour{"transfer", "#c8553d"},
      Colour{"checkpoint", "#a63d6f"}, Colour{"wait", "#d5dae0"}};
  return find(kColours, phase);
}

const char* category_colour(std::string_view category) {
  static constexpr std::array kColours{
      Colour{"parameters", "#3572b0"},       Colour{"gradients", "#e08e45"},
      Colour{"optimizer states", "#8e6bbf"}, Colour{"activations", "#4c9f70"},
      Colour{"workspace", "#c7b05a"},        Colour{"data", "#6bb7c4"}};
  return find(kColours, category);
}

}  // namespace dos::trace

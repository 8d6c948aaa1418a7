// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dos::trace {

/// Text as XML and HTML want it.
std::string escaped(std::string_view text);

/// "12.3 ms", "1.25 s", "830 us": three digits.
std::string format_time(double micros);
/// "11.3 GB/s", "250 MB/s".
std::string format_rate(double bytes_per_s);
/// "45.3 %".
std::string format_share(double share);

/// The columns of every chart, so that they stand below each other: names, the drawing, a margin.
inline constexpr double kLeft = 150;
inline constexpr double kWidth = 1000;
inline constexpr double kRight = 10;

/// A drawing that grows downwards; coordinates in pixels.
class Svg {
 public:
  explicit Svg(double width) : width_(width) {}

  void rect(double x, double y, double width, double height, std::string_view colour,
            std::string_view tooltip = "");
  /// `anchor`: start, middle or end.
  void text(double x, double y, std::string_view what, std::string_view anchor = "start",
            std::string_view css_class = "");
  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  /// Closed.
  void polygon(const std::vector<std::pair<double, double>>& points, std::string_view colour,
               std::string_view tooltip = "");

  /// The whole drawing.
  [[nodiscard]] std::string finish(double height, std::string_view label) const;

 private:
  double width_;
  std::string body_;
};

/// Round numbers, about `count` of them, from 0 to at most `end`.
std::vector<double> ticks(double end, int count);

/// Coloured squares with names.
struct LegendEntry {
  std::string name;
  std::string colour;
};
std::string legend(const std::vector<LegendEntry>& entries);

const char* phase_colour(std::string_view phase);
const char* category_colour(std::string_view category);

}  // namespace dos::trace

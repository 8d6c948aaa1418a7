// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/report/intervals.hpp"

namespace dos::trace {

/// "12.3 ms", "1.25 s", "830 us": three digits.
std::string format_time(double micros);
/// "11.3 GB/s", "250 MB/s".
std::string format_rate(double bytes_per_s);
/// "45.3 %".
std::string format_share(double share);

/// Round numbers, about `count` of them, from 0 to at most `end`.
std::vector<double> ticks(double end, int count);

/// A drawing of fixed height that is as wide as the page lets it be: its shapes stretch, its text
/// does not. x and widths are parts of the whole, from 0 to 1; y and heights are pixels.
class Plot {
 public:
  explicit Plot(double height) : height_(height) {}

  /// `fill`: a colour, or a texture of the page; a `pale` one belongs to something else.
  void rect(double x, double y, double width, double height, std::string_view fill,
            std::string_view tooltip = "", bool pale = false);
  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  /// Closed.
  void polygon(const std::vector<std::pair<double, double>>& points, std::string_view fill,
               std::string_view tooltip = "");
  /// In one line, its middle at y. It begins at x, or ends there when x is beyond the middle of the
  /// plot; with "centred" in `css_class` x is its middle. What is "minor" gives way on small pages.
  void label(double x, double y, std::string_view what, std::string_view css_class = "");

  [[nodiscard]] std::string finish(std::string_view label) const;

 private:
  double height_;
  std::string shapes_;
  std::string labels_;
};

/// A plot with its name beside it: names of all rows stand in one column, plots in another.
std::string row(std::string_view name, const std::string& plot, std::string_view tooltip = "");
/// Rows below each other, without space between, so that lines through all of them meet.
std::string chart(const std::string& rows);

/// A moment that is marked through all rows of a chart.
struct Mark {
  double time = 0;
  std::string text;
  bool strong = false;
  bool minor = false;  ///< gives way on small pages
};

/// The time that a chart shows, the same in all its rows.
struct TimeAxis {
  Interval shown;
  double zero = 0;  ///< the moment that is called 0
  std::vector<Mark> marks{};

  [[nodiscard]] double x(double time) const;
  /// Lines of times and marks.
  void draw_grid(Plot& plot, double height) const;
  /// The names of the strong marks; "" without one.
  [[nodiscard]] std::string names_row() const;
  /// Round times.
  [[nodiscard]] std::string times_row() const;
};

}  // namespace dos::trace

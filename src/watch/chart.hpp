// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace dos::watch {

using Point = std::pair<Index, double>;  ///< step and value

/// A line through values, or dots where there are few.
struct Series {
  std::string name;
  std::vector<Point> points;
  bool is_dots = false;
};

/// What a chart's vertical axis shows.
enum class Scale { kValues, kFromZero, kShare };

/// Points beyond this are drawn as means of neighbours.
inline constexpr std::size_t kMostPoints = 600;

/// Those that can be drawn, finite and below 1e100; means of runs of neighbours where there are
/// more than kMostPoints.
std::vector<Point> thinned(const std::vector<Point>& points);

/// A figure with the series over the steps from `first` to `last`, as HTML; "" where no value
/// can be drawn. kShare: parts of 1, drawn in percent; what is beyond is drawn as 1.
std::string chart(const std::string& title, const std::vector<Series>& series, Scale scale,
                  Index first, Index last);

}  // namespace dos::watch

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace dos::trace {

/// A part of a time line.
struct Interval {
  double start = 0;
  double end = 0;
  bool operator==(const Interval&) const = default;
};

/// Intervals in order, none empty, none touching the next.
using Intervals = std::vector<Interval>;

/// What any of them covers.
Intervals unite(std::vector<Interval> any);
/// What both cover.
Intervals intersect(const Intervals& a, const Intervals& b);
/// What `a` covers and `b` does not.
Intervals subtract(const Intervals& a, const Intervals& b);
/// Where to draw intervals that overlap, given in order of their start: a row for each, from 0 on,
/// the first that is free; beyond `most` rows the one that is free first.
std::vector<std::size_t> rows_of(const std::vector<Interval>& any, std::size_t most);
double length(const Intervals& intervals);
/// Of [start, end), how much they cover.
double covered(const Intervals& intervals, double start, double end);

}  // namespace dos::trace

// SPDX-License-Identifier: Apache-2.0
#include "trace/report/intervals.hpp"

#include <algorithm>

namespace dos::trace {

Intervals unite(std::vector<Interval> any) {
  std::sort(any.begin(), any.end(),
            [](const Interval& a, const Interval& b) { return a.start < b.start; });
  Intervals result;
  for (const Interval& each : any) {
    if (each.end <= each.start) continue;
    if (!result.empty() && each.start <= result.back().end)
      result.back().end = std::max(result.back().end, each.end);
    else
      result.push_back(each);
  }
  return result;
}

Intervals intersect(const Intervals& a, const Intervals& b) {
  Intervals result;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Interval common{std::max(a[i].start, b[j].start), std::min(a[i].end, b[j].end)};
    if (common.start < common.end) result.push_back(common);
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
  return result;
}

Intervals subtract(const Intervals& a, const Intervals& b) {
  Intervals result;
  std::size_t next = 0;
  for (Interval rest : a) {
    while (next < b.size() && b[next].end <= rest.start) ++next;
    for (std::size_t i = next; i < b.size() && b[i].start < rest.end; ++i) {
      if (b[i].start > rest.start) result.push_back({rest.start, b[i].start});
      rest.start = std::max(rest.start, b[i].end);
    }
    if (rest.start < rest.end) result.push_back(rest);
  }
  return result;
}

std::vector<std::size_t> rows_of(const std::vector<Interval>& any, std::size_t most) {
  std::vector<std::size_t> rows;
  std::vector<double> free_at;
  for (const Interval& each : any) {
    auto row = std::ranges::find_if(free_at, [&](double time) { return time <= each.start; });
    if (row == free_at.end() && free_at.size() < most)
      row = free_at.insert(free_at.end(), each.start);
    if (row == free_at.end()) row = std::ranges::min_element(free_at);
    *row = std::max(*row, each.end);
    rows.push_back(static_cast<std::size_t>(row - free_at.begin()));
  }
  return rows;
}

double length(const Intervals& intervals) {
  double sum = 0;
  for (const Interval& each : intervals) sum += each.end - each.start;
  return sum;
}

double covered(const Intervals& intervals, double start, double end) {
  const auto first =
      std::lower_bound(intervals.begin(), intervals.end(), start,
                       [](const Interval& each, double time) { return each.end <= time; });
  double sum = 0;
  for (auto each = first; each != intervals.end() && each->start < end; ++each)
    sum += std::min(each->end, end) - std::max(each->start, start);
  return sum;
}

}  // namespace dos::trace

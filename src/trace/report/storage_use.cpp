// SPDX-License-Identifier: Apache-2.0
// What went between memory and files.
#include <algorithm>
#include <map>
#include <tuple>

#include "trace/report/analysis.hpp"

namespace dos::trace {
namespace {

struct OnDisk {
  std::vector<Interval> moving;
  std::vector<Interval> flushing;
  Index bytes = 0;
  Index transfers = 0;
};

DiskUse describe(const OnDisk& found, const Intervals& computing) {
  const Intervals moving = unite(found.moving);
  return {.bytes = found.bytes,
          .transfers = found.transfers,
          .busy = length(moving),
          .hidden = length(intersect(moving, computing)),
          .flushing = length(unite(found.flushing))};
}

/// Of each category, what is held after each change.
std::vector<MemoryPoint> curve_of(const std::vector<const Storage*>& holds) {
  std::vector<std::tuple<double, const Storage*, Index>> changes;
  for (const Storage* hold : holds) {
    changes.emplace_back(hold->start, hold, hold->bytes);
    changes.emplace_back(hold->end, hold, -hold->bytes);
  }
  std::ranges::stable_sort(changes, {}, [](const auto& change) { return std::get<0>(change); });
  std::vector<MemoryPoint> curve;
  for (const auto& [time, hold, bytes] : changes) {
    if (curve.empty() || curve.back().time != time) {
      MemoryPoint next = curve.empty() ? MemoryPoint{} : curve.back();
      next.time = time;
      curve.push_back(std::move(next));
    }
    curve.back().bytes[hold->category] += bytes;
  }
  return curve;
}

void add_to(CheckpointUse& use, const Storage& row) {
  const double time = row.end - row.start;
  if (row.operation == "hold") use.held = std::max(use.held, time);
  if (row.operation == "copy") use.copied_bytes += row.bytes;
  if (row.operation == "wait") use.waited = std::max(use.waited, time);
  if (row.operation == "write" && !row.buffer.empty()) use.bytes += row.bytes;
  // A file's header is written before there is anything to save; who waits, may have done so
  // before.
  if (row.operation == "wait" || (row.buffer.empty() && row.operation != "flush")) return;
  use.time.start = use.time.end > 0 ? std::min(use.time.start, row.start) : row.start;
  use.time.end = std::max(use.time.end, row.end);
}

/// The lower one of two.
template <class Value, class Of>
Value median(const std::vector<const CheckpointUse*>& all, const Of& of) {
  std::vector<Value> values;
  for (const CheckpointUse* use : all) values.push_back(of(*use));
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

CheckpointSummary summarise(const std::vector<const CheckpointUse*>& all) {
  CheckpointSummary summary{
      .rank = all.front()->rank,
      .checkpoints = std::ssize(all),
      .bytes = median<Index>(all, [](const auto& use) { return use.bytes; }),
      .time = median<double>(all, [](const auto& use) { return use.time.end - use.time.start; }),
      .bytes_per_s = median<double>(all, [](const auto& use) { return use.bytes_per_s(); })};
  double bytes = 0;
  double copied = 0;
  for (const CheckpointUse* use : all) {
    bytes += static_cast<double>(use->bytes);
    copied += static_cast<double>(use->copied_bytes);
    summary.held = std::max(summary.held, use->held);
    if (use->waited <= summary.waited) continue;
    summary.waited = use->waited;
    summary.waited_step = use->step;
  }
  summary.copied_share = bytes > 0 ? copied / bytes : 0;
  return summary;
}

}  // namespace

std::vector<CheckpointSummary> summarise(const std::vector<CheckpointUse>& checkpoints) {
  std::map<int, std::vector<const CheckpointUse*>> by_rank;
  for (const CheckpointUse& use : checkpoints) by_rank[use.rank].push_back(&use);
  std::vector<CheckpointSummary> result;
  for (const auto& [rank, all] : by_rank) result.push_back(summarise(all));
  return result;
}

std::vector<DiskUse> disk_use(const Trace& trace) {
  std::map<std::tuple<int, std::string, std::string>, OnDisk> by_direction;
  for (const Storage& row : trace.storage) {
    if (row.disk.empty()) continue;
    const bool is_read = row.operation == "read";
    OnDisk& found = by_direction[{row.rank, row.disk, is_read ? "read" : "write"}];
    const bool flushes = row.operation == "flush";
    (flushes ? found.flushing : found.moving).push_back({row.start, row.end});
    found.bytes += row.bytes;
    found.transfers += flushes ? 0 : 1;
  }
  std::map<int, std::vector<Interval>> computing;
  if (!by_direction.empty())
    for (const Task& task : trace.tasks) computing[task.rank].push_back({task.start, task.end});
  std::vector<DiskUse> result;
  for (const auto& [key, found] : by_direction) {
    const int rank = std::get<int>(key);
    DiskUse use = describe(found, unite(computing[rank]));
    use.rank = rank;
    use.disk = std::get<1>(key);
    use.operation = std::get<2>(key);
    result.push_back(std::move(use));
  }
  return result;
}

std::vector<CheckpointUse> checkpoint_use(const Trace& trace) {
  std::map<std::pair<int, Index>, CheckpointUse> all;
  for (const Storage& row : trace.storage)
    if (row.purpose == "checkpoint" && row.operation != "read")
      add_to(all[{row.rank, row.step}], row);
  std::vector<CheckpointUse> result;
  for (auto& [place, use] : all) {
    std::tie(use.rank, use.step) = place;
    result.push_back(use);
  }
  return result;
}

std::vector<MemoryUse> held_use(const Trace& trace) {
  std::map<int, std::vector<const Storage*>> by_rank;
  for (const Storage& row : trace.storage)
    if (row.operation == "hold") by_rank[row.rank].push_back(&row);
  std::vector<MemoryUse> result;
  for (const auto& [rank, holds] : by_rank) {
    MemoryUse use{.rank = rank, .name = "held for checkpoints", .curve = curve_of(holds)};
    for (const MemoryPoint& point : use.curve) use.peak = std::max(use.peak, point.total());
    result.push_back(std::move(use));
  }
  return result;
}

}  // namespace dos::trace

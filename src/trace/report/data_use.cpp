// SPDX-License-Identifier: Apache-2.0
// Links, memory and placements.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "trace/report/analysis.hpp"

namespace dos::trace {
namespace {

using LinkKey = std::tuple<int, int, int>;

std::string node_name(const TraceManifest& manifest, int node) {
  return manifest.machine.nodes[static_cast<std::size_t>(node)].name;
}

int node_of_worker(const TraceManifest& manifest, Index worker) {
  return manifest.machine.workers[static_cast<std::size_t>(worker)].node;
}

/// Bytes of buffers that went the same way before in the same step.
Index repeated(const std::vector<const Transfer*>& transfers, const std::vector<StepTimes>& steps) {
  std::set<std::pair<std::size_t, std::string>> seen;
  Index bytes = 0;
  for (const Transfer* copy : transfers) {
    const auto step =
        std::upper_bound(steps.begin(), steps.end(), copy->start,
                         [](double time, const StepTimes& each) { return time < each.end; });
    if (!seen.emplace(static_cast<std::size_t>(step - steps.begin()), copy->buffer).second)
      bytes += copy->bytes;
  }
  return bytes;
}

constexpr int kAnyNode = -1;

/// When a worker of the memory node ran a task.
Intervals running_on(const Trace& trace, int rank, int node) {
  std::vector<Interval> all;
  for (const Task& task : trace.tasks)
    if (task.rank == rank &&
        (node == kAnyNode || node_of_worker(trace.rank(rank), task.worker) == node))
      all.push_back({task.start, task.end});
  return unite(std::move(all));
}

LinkUse describe(const Trace& trace, const LinkKey& key,
                 const std::vector<const Transfer*>& transfers,
                 const std::vector<StepTimes>& steps) {
  const auto [rank, from, to] = key;
  const TraceManifest& manifest = trace.rank(rank);
  LinkUse link{.rank = rank,
               .from = from,
               .to = to,
               .name = fmt::format("{} to {}", node_name(manifest, from), node_name(manifest, to)),
               .peak = trace.bytes_per_s(rank, from, to)};
  std::vector<Interval> busy;
  for (const Transfer* copy : transfers) {
    link.bytes += copy->bytes;
    link.estimated = link.estimated || copy->measured == 0;
    busy.push_back({copy->start, copy->end});
  }
  link.transfers = std::ssize(transfers);
  const Intervals on_link = unite(std::move(busy));
  link.busy = length(on_link);
  link.repeated_bytes = repeated(transfers, steps);
  const int device = from == 0 ? to : from;
  link.overlapped = length(intersect(on_link, running_on(trace, rank, device)));
  link.hidden = length(intersect(on_link, running_on(trace, rank, kAnyNode)));
  for (const char* phase : {"forward", "backward", "reduce", "update"}) {
    const Intervals running = phase_spans(trace, phase);
    LinkUse::InPhase& in_phase = link.phases[phase];
    in_phase.time = length(running);
    for (const Transfer* copy : transfers) {
      const double time = std::max(1e-3, copy->end - copy->start);
      in_phase.bytes += static_cast<double>(copy->bytes) *
                        std::min(1.0, covered(running, copy->start, copy->end) / time);
    }
  }
  return link;
}

/// A point at each time at which something changed.
std::vector<MemoryPoint> curve_of(const std::vector<const Memory*>& rows) {
  std::vector<MemoryPoint> curve;
  for (const Memory* row : rows) {
    if (curve.empty() || curve.back().time != row->time) {
      MemoryPoint next = curve.empty() ? MemoryPoint{} : curve.back();
      next.time = row->time;
      curve.push_back(std::move(next));
    }
    curve.back().bytes[row->category] = row->bytes;
  }
  return curve;
}

/// What held at the beginning of the step counts, what changed at its very end does not: that
/// sample is of the time after it.
std::vector<MemoryUse::InStep> extremes(const std::vector<MemoryPoint>& curve,
                                        const std::vector<StepTimes>& steps) {
  std::vector<MemoryUse::InStep> result;
  for (const StepTimes& step : steps) {
    const double start = step.end - step.duration;
    auto point = std::upper_bound(curve.begin(), curve.end(), start,
                                  [](double time, const auto& each) { return time < each.time; });
    if (point != curve.begin()) --point;
    if (point == curve.end() || point->time >= step.end) continue;
    MemoryUse::InStep use{.step = step.step, .lowest = point->total(), .peak = point->total()};
    for (; point != curve.end() && point->time < step.end; ++point) {
      use.lowest = std::min(use.lowest, point->total());
      use.peak = std::max(use.peak, point->total());
    }
    result.push_back(use);
  }
  return result;
}

}  // namespace

Index MemoryPoint::total() const {
  Index sum = 0;
  for (const auto& [category, each] : bytes) sum += each;
  return sum;
}

std::vector<LinkUse> link_use(const Trace& trace, const Interval& window) {
  std::map<LinkKey, std::vector<const Transfer*>> by_link;
  for (const Transfer& copy : trace.transfers)
    if (copy.start >= window.start && copy.start < window.end)
      by_link[{copy.rank, static_cast<int>(copy.from), static_cast<int>(copy.to)}].push_back(&copy);
  const std::vector<StepTimes> steps = step_times(trace);
  std::vector<LinkUse> result;
  for (const auto& [key, transfers] : by_link)
    result.push_back(describe(trace, key, transfers, steps));
  return result;
}

std::vector<MemoryUse> memory_use(const Trace& trace, const std::vector<StepTimes>& steps) {
  std::map<std::pair<int, int>, std::vector<const Memory*>> by_node;
  for (const Memory& row : trace.memory)
    by_node[{row.rank, static_cast<int>(row.node)}].push_back(&row);
  std::vector<MemoryUse> result;
  for (const auto& [place, rows] : by_node) {
    const auto& node =
        trace.rank(place.first).machine.nodes[static_cast<std::size_t>(place.second)];
    MemoryUse use{.rank = place.first,
                  .node = place.second,
                  .name = node.name,
                  .capacity = node.capacity_bytes,
                  .peak = 0,
                  .lowest = std::numeric_limits<Index>::max(),
                  .curve = curve_of(rows)};
    for (const MemoryPoint& point : use.curve) {
      use.peak = std::max(use.peak, point.total());
      use.lowest = std::min(use.lowest, point.total());
    }
    std::map<Index, Index> after;
    for (const Memory* row : rows)
      if (row->step > 0) after[row->step] += row->bytes;
    use.after_step.assign(after.begin(), after.end());
    use.in_steps = extremes(use.curve, steps);
    result.push_back(std::move(use));
  }
  return result;
}

namespace {

/// The memory node of the worker that ran each update.
std::map<std::tuple<int, Index, std::string>, int> executed_nodes(const Trace& trace) {
  std::map<std::tuple<int, Index, std::string>, int> nodes;
  for (const Task& task : trace.tasks)
    if (task.phase == "update")
      nodes[{task.rank, task.step, task.label}] =
          node_of_worker(trace.rank(task.rank), task.worker);
  return nodes;
}

}  // namespace

std::vector<PlacementUse> placement_use(const Trace& trace) {
  const auto executed = executed_nodes(trace);
  std::map<Index, PlacementUse> steps;
  for (const UpdatePlacement& each : trace.placements) {
    PlacementUse& use = steps[each.step];
    use.step = each.step;
    use.params += each.params;
    if (each.node != 0) use.planned_device += each.params;
    const auto found = executed.find({each.rank, each.step, each.subgroup});
    if (found == executed.end()) continue;
    if (found->second != 0) use.executed_device += each.params;
    if (found->second != each.node) ++use.moved;
  }
  std::vector<PlacementUse> result;
  for (const auto& [step, use] : steps) result.push_back(use);
  return result;
}

std::vector<SubgroupPlace> last_placement(const Trace& trace) {
  const auto executed = executed_nodes(trace);
  Index last = 0;
  for (const UpdatePlacement& each : trace.placements) last = std::max(last, each.step);
  std::vector<SubgroupPlace> result;
  for (const UpdatePlacement& each : trace.placements) {
    if (each.step != last) continue;
    const auto found = executed.find({each.rank, each.step, each.subgroup});
    result.push_back({.subgroup = each.subgroup,
                      .params = each.params,
                      .planned_node = static_cast<int>(each.node),
                      .executed_node = found == executed.end() ? -1 : found->second,
                      .resident = each.resident != 0});
  }
  return result;
}

}  // namespace dos::trace

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "trace/report/analysis.hpp"

namespace dos::trace {
namespace {

using Place = std::pair<int, int>;  ///< (rank, worker or node)

/// Updates and norms read and write memory and compute little.
bool is_memory_bound(const Task& task) {
  return task.phase == "update" || task.phase == "reduce";
}

/// The lower decile of the durations of each kind of task on the CPU: what it takes when nobody
/// else uses memory. The minimum is one lucky reading, the median is of a busy machine.
class Undisturbed {
 public:
  Undisturbed(const Trace& trace, const std::map<Place, const rt::MachineView::Worker*>& workers) {
    std::map<Key, std::vector<double>> durations;
    for (const Task& task : trace.tasks)
      if (is_memory_bound(task) &&
          workers.at({task.rank, static_cast<int>(task.worker)})->kind == "cpu")
        durations[key(task)].push_back(task.duration());
    for (auto& [kind, values] : durations) {
      const auto decile = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 10);
      std::nth_element(values.begin(), decile, values.end());
      reference_[kind] = *decile;
    }
  }

  [[nodiscard]] double excess(const Task& task) const {
    const auto found = reference_.find(key(task));
    return found == reference_.end() ? 0 : std::max(0.0, task.duration() - found->second);
  }

 private:
  using Key = std::tuple<int, std::string, Index>;
  static Key key(const Task& task) { return {task.rank, task.codelet, task.footprint}; }
  std::map<Key, double> reference_;
};

/// What is known of all workers and of time, gathered once.
struct Times {
  std::map<Place, const rt::MachineView::Worker*> workers;
  std::map<Place, std::vector<Interval>> running;                        ///< by worker
  std::map<Place, std::map<std::string, std::vector<Interval>>> phases;  ///< likewise, by phase
  std::map<Place, std::vector<Interval>> fetching;                       ///< by worker
  std::map<Place, std::vector<Interval>> waiting;       ///< by node: a task was ready
  std::set<Place> reached;                              ///< nodes that a copy went to or came from
  std::map<Place, std::vector<Interval>> memory_work;   ///< by worker, CPUs only
  std::map<int, std::vector<Interval>> device_running;  ///< by rank
  std::map<int, std::vector<Interval>> checkpoints;     ///< by rank: something waited for one
  std::map<int, std::vector<Interval>> receiving;       ///< by rank: a message was on its way to it
};

Times gather(const Trace& trace) {
  Times times;
  for (const TraceManifest& manifest : trace.ranks)
    for (const auto& worker : manifest.machine.workers)
      times.workers[{manifest.rank, worker.id}] = &worker;
  for (const Task& task : trace.tasks) {
    const Place place{task.rank, static_cast<int>(task.worker)};
    const rt::MachineView::Worker& worker = *times.workers.at(place);
    times.running[place].push_back({task.start, task.end});
    times.phases[place][task.phase].push_back({task.start, task.end});
    times.fetching[place].push_back({task.data_start, task.data_end});
    times.waiting[{task.rank, worker.node}].push_back({task.ready, task.taken});
    if (worker.kind != "cpu")
      times.device_running[task.rank].push_back({task.start, task.end});
    else if (is_memory_bound(task))
      times.memory_work[place].push_back({task.start, task.end});
  }
  for (const Transfer& copy : trace.transfers)
    for (const Index node : {copy.from, copy.to})
      times.reached.insert({copy.rank, static_cast<int>(node)});
  for (const Span& span : trace.spans)
    if (span.name == "checkpoint") times.checkpoints[span.rank].push_back({span.start, span.end});
  for (const Storage& row : trace.storage)
    if (row.operation == "wait") times.checkpoints[row.rank].push_back({row.start, row.end});
  for (const Communication& each : trace.communications)
    if (each.operation.starts_with("receive"))
      times.receiving[each.rank].push_back({each.start, each.end});
  return times;
}

/// Of the time that the worker's memory-bound tasks took too long, what others' may have caused:
/// each task's excess, at most the time that others were at it meanwhile.
double slowed_by_dram(const Trace& trace, const Times& times, const Undisturbed& undisturbed,
                      const Place& place, const Interval& window) {
  std::vector<Interval> others;
  for (const auto& [other, intervals] : times.memory_work)
    if (other != place) others.insert(others.end(), intervals.begin(), intervals.end());
  const Intervals beside = unite(std::move(others));
  double sum = 0;
  for (const Task& task : trace.tasks)
    if (is_memory_bound(task) && Place{task.rank, static_cast<int>(task.worker)} == place &&
        task.start >= window.start && task.end <= window.end)
      sum += std::min(undisturbed.excess(task), covered(beside, task.start, task.end));
  return sum;
}

template <class Map, class Key>
Intervals united(const Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? Intervals{} : unite(found->second);
}

}  // namespace

std::vector<WorkerUse> worker_use(const Trace& trace, const Interval& window) {
  const Times times = gather(trace);
  const Undisturbed undisturbed(trace, times.workers);
  const Intervals updates = phase_spans(trace, "update");
  std::vector<WorkerUse> result;
  for (const auto& [place, worker] : times.workers) {
    WorkerUse use{.rank = place.first,
                  .worker = place.second,
                  .name = short_name(*worker),
                  .kind = worker->kind};
    const auto at = [&](Use what) -> double& { return use.time[static_cast<std::size_t>(what)]; };
    const Intervals running = intersect(united(times.running, place), {window});
    if (const auto found = times.phases.find(place); found != times.phases.end())
      for (const auto& [phase, ran] : found->second)
        use.phases[phase] = length(intersect(unite(ran), {window}));
    Intervals rest = subtract({window}, running);
    const auto take = [&](Use what, const Intervals& cause) {
      at(what) += length(intersect(rest, cause));
      rest = subtract(rest, cause);
    };
    if (worker->kind == "cpu")
      at(Use::kDram) = slowed_by_dram(trace, times, undisturbed, place, window);
    at(Use::kComputing) = length(running) - at(Use::kDram);
    const Place node{place.first, worker->node};
    // Where nothing was copied nobody waited for a copy: the runtime was late.
    take(times.reached.contains(node) ? Use::kData : Use::kHeldBack, united(times.fetching, place));
    take(Use::kHeldBack, united(times.waiting, node));
    take(Use::kCheckpoint, united(times.checkpoints, place.first));
    if (worker->kind == "cpu") {
      const Intervals device = united(times.device_running, place.first);
      use.device_in_update = length(intersect(intersect(rest, device), updates));
      take(Use::kDevice, device);
    }
    take(Use::kRanks, united(times.receiving, place.first));
    at(Use::kNoWork) = length(rest);
    use.no_work_in_update = length(intersect(rest, updates));
    result.push_back(std::move(use));
  }
  return result;
}

}  // namespace dos::trace

// SPDX-License-Identifier: Apache-2.0
#include "trace/report/analysis.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.hpp"

namespace dos::trace {
namespace {

Interval window_of(const Trace& trace) {
  Interval window{std::numeric_limits<double>::max(), 0};
  for (const Task& task : trace.tasks) {
    if (task.step == 0) continue;
    window.start = std::min(window.start, task.start);
    window.end = std::max(window.end, task.end);
  }
  return window;
}

}  // namespace

const char* name_of(Use use) {
  switch (use) {
    case Use::kComputing:
      return "computing";
    case Use::kDram:
      return "slowed by DRAM";
    case Use::kData:
      return "waiting for data";
    case Use::kDevice:
      return "waiting for a device";
    case Use::kHeldBack:
      return "held back";
    case Use::kCheckpoint:
      return "checkpoint";
    case Use::kRanks:
      return "waiting for ranks";
    case Use::kNoWork:
      return "no work";
  }
  return "?";
}

const char* meaning_of(Use use) {
  switch (use) {
    case Use::kComputing:
      return "ran a task";
    case Use::kDram:
      return "ran an update or a norm for longer than one takes alone: memory was shared";
    case Use::kData:
      return "had a task whose buffers were on their way";
    case Use::kDevice:
      return "had nothing ready while a device computed";
    case Use::kHeldBack:
      return "had nothing though a task for it was ready: a full window, or a late runtime";
    case Use::kCheckpoint:
      return "had nothing while an update, or the submitting thread, waited for a checkpoint";
    case Use::kRanks:
      return "had nothing while a message from another rank was on its way";
    case Use::kNoWork:
      return "nothing was ready";
  }
  return "?";
}

std::string short_name(const rt::MachineView::Worker& worker) {
  return worker.name.substr(0, worker.name.find(" ("));
}

double Analysis::idle_share(Use use) const {
  double time = 0;
  double total = 0;
  for (const WorkerUse& worker : workers) {
    time += worker.of(use);
    for (const double each : worker.time) total += each;
  }
  return total > 0 ? time / total : 0;
}

std::vector<StepTimes> step_times(const Trace& trace) {
  std::map<Index, StepTimes> steps;
  for (const Task& task : trace.tasks) {
    if (task.step == 0) continue;
    const auto [step, is_first] = steps.try_emplace(
        task.step,
        StepTimes{.step = task.step, .start = task.start, .end = task.end, .duration = 0});
    step->second.start = std::min(step->second.start, task.start);
    step->second.end = std::max(step->second.end, task.end);
  }
  std::vector<StepTimes> result;
  for (auto& [number, step] : steps) {
    const double before = result.empty() ? step.start : result.back().end;
    step.duration = step.end - std::max(step.start, before);
    result.push_back(step);
  }
  return result;
}

Intervals phase_intervals(const Trace& trace, const std::string& phase, const Interval& window) {
  std::vector<Interval> all;
  for (const Task& task : trace.tasks)
    if (task.phase == phase) all.push_back({task.start, task.end});
  return intersect(unite(std::move(all)), {window});
}

Intervals phase_spans(const Trace& trace, const std::string& phase) {
  std::map<Index, Interval> spans;
  for (const Task& task : trace.tasks) {
    if (task.phase != phase || task.step == 0) continue;
    const auto [span, is_first] = spans.try_emplace(task.step, Interval{task.start, task.end});
    span->second.end = std::max(span->second.end, task.end);
  }
  std::vector<Interval> all;
  for (const auto& [step, span] : spans) all.push_back(span);
  return unite(std::move(all));
}

Analysis analyse(const Trace& trace) {
  Analysis result;
  result.steps = step_times(trace);
  expect(!result.steps.empty(),
         "the trace of run {} has no task of a step: look at --trace-steps of that run",
         trace.ranks.front().run);
  result.window = window_of(trace);
  std::set<std::string> phases;
  for (const Task& task : trace.tasks) {
    if (task.start < result.window.start || task.end > result.window.end) continue;
    result.task_us += task.duration();
    phases.insert(task.phase);
  }
  for (const std::string& phase : phases)
    result.phase_busy[phase] = length(phase_intervals(trace, phase, result.window));
  std::vector<StepTimes> by_duration = result.steps;
  std::sort(by_duration.begin(), by_duration.end(),
            [](const StepTimes& a, const StepTimes& b) { return a.duration < b.duration; });
  const StepTimes& typical = by_duration[(by_duration.size() - 1) / 2];
  result.median_step = typical.duration;
  result.typical_step = typical.step;
  result.workers = worker_use(trace, result.window);
  result.links = link_use(trace, result.window);
  result.memory = memory_use(trace, result.steps);
  result.disks = disk_use(trace);
  result.activations = activation_costs(trace, result.window, std::ssize(result.steps));
  result.checkpoints = checkpoint_use(trace);
  result.held = held_use(trace);
  result.placements = placement_use(trace);
  result.last_placement = last_placement(trace);
  result.losses = find_losses(result, facts_of(trace, result));
  return result;
}

}  // namespace dos::trace

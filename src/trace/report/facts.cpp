// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "trace/report/advice.hpp"
#include "trace/report/analysis.hpp"

namespace dos::trace {
namespace {

/// What the trace's configuration says of a key; nothing if it does not, or of another type.
template <class T>
std::optional<T> configured(const TraceManifest& manifest, const char* section, const char* name) {
  const nlohmann::json& all = manifest.configuration;
  if (!all.is_object() || !all.contains(section)) return {};
  const nlohmann::json& members = all.at(section);
  if (!members.is_object() || !members.contains(name)) return {};
  const nlohmann::json& value = members.at(name);
  const bool fits = std::is_same_v<T, bool>          ? value.is_boolean()
                    : std::is_same_v<T, std::string> ? value.is_string()
                                                     : value.is_number();
  return fits ? std::optional<T>(value.get<T>()) : std::nullopt;
}

void read_configuration(const TraceManifest& manifest, Facts& facts) {
  facts.batch = configured<Index>(manifest, "train", "batch");
  facts.lanes = configured<Index>(manifest, "train", "lanes");
  facts.accumulate = configured<Index>(manifest, "train", "accumulate");
  facts.run_ahead = configured<Index>(manifest, "train", "run_ahead");
  facts.checkpoint_every = configured<Index>(manifest, "train", "checkpoint_every");
  facts.zero = configured<Index>(manifest, "dist", "zero");
  facts.speculate = configured<std::string>(manifest, "optim", "speculate");
  facts.clip = configured<double>(manifest, "optim", "clip");
  facts.share = configured<double>(manifest, "sched", "share");
  facts.gpu_memory = configured<double>(manifest, "train", "gpu_memory");
  facts.resident = configured<bool>(manifest, "sched", "resident");
  facts.precision = configured<std::string>(manifest, "train", "precision");
  facts.gradient_precision = configured<std::string>(manifest, "train", "gradient_precision");
}

void look_at_tasks(const Trace& trace, const Analysis& analysis, Facts& facts) {
  double time = 0;
  Index tasks = 0;
  Index updates = 0;
  for (const Task& task : trace.tasks) {
    const auto& worker =
        trace.rank(task.rank).machine.workers[static_cast<std::size_t>(task.worker)];
    const bool is_cpu = worker.kind == "cpu";
    const bool is_update = task.phase == "update";
    if (is_update) (is_cpu ? facts.cpus_update : facts.devices_update) = true;
    if (!is_cpu && (task.phase == "forward" || task.phase == "backward"))
      facts.devices_run_model = true;
    updates += is_update && task.step > 0 ? 1 : 0;
    if (!is_cpu) continue;
    time += task.duration();
    ++tasks;
  }
  facts.cpu_task_us = tasks > 0 ? time / static_cast<double>(tasks) : 0;
  facts.updates = updates / std::max<Index>(1, std::ssize(analysis.steps) * facts.ranks);
}

double update_part(const Analysis& analysis) {
  double updates = 0;
  double all = 0;
  for (const WorkerUse& worker : analysis.workers) {
    all = std::accumulate(worker.time.begin(), worker.time.end(), all);
    if (const auto found = worker.phases.find("update"); found != worker.phases.end())
      updates += found->second;
  }
  return all > 0 ? updates / all : 0;
}

}  // namespace

Facts facts_of(const Trace& trace, const Analysis& analysis) {
  const TraceManifest& first = trace.ranks.front();
  Facts facts{.ranks = std::ssize(trace.ranks), .policy = first.policy};
  for (const auto& worker : first.machine.workers)
    ++(worker.kind == "cpu" ? facts.cpu_workers : facts.devices);
  for (const LinkUse& link : analysis.links)
    (link.to == 0 ? facts.bytes_to_host : facts.bytes_to_devices) += link.bytes;
  look_at_tasks(trace, analysis, facts);
  facts.update_part = update_part(analysis);
  read_configuration(first, facts);
  return facts;
}

}  // namespace dos::trace

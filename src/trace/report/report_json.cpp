// SPDX-License-Identifier: Apache-2.0
#include "trace/report/report_json.hpp"

namespace dos::trace {
namespace {

using nlohmann::json;

constexpr double kMicrosInMilli = 1e3;

double ms(double micros) {
  return micros / kMicrosInMilli;
}

json steps_of(const Analysis& analysis) {
  json list = json::array();
  for (const StepTimes& step : analysis.steps)
    list.push_back({{"step", step.step}, {"ms", ms(step.duration)}});
  return list;
}

json workers_of(const Analysis& analysis) {
  json list = json::array();
  for (const WorkerUse& worker : analysis.workers) {
    json time;
    for (const Use use : kUses) time[name_of(use)] = ms(worker.of(use));
    list.push_back({{"rank", worker.rank},
                    {"worker", worker.worker},
                    {"name", worker.name},
                    {"kind", worker.kind},
                    {"ms", std::move(time)}});
  }
  return list;
}

json links_of(const Analysis& analysis) {
  json list = json::array();
  for (const LinkUse& link : analysis.links) {
    json phases;
    for (const auto& [phase, use] : link.phases)
      phases[phase] = {{"ms", ms(use.time)},
                       {"bytes", use.bytes},
                       {"bytes_per_s", use.bytes_per_s()},
                       {"of_peak", link.peak > 0 ? use.bytes_per_s() / link.peak : 0}};
    list.push_back({{"rank", link.rank},
                    {"from", link.from},
                    {"to", link.to},
                    {"name", link.name},
                    {"peak_bytes_per_s", link.peak},
                    {"bytes", link.bytes},
                    {"transfers", link.transfers},
                    {"repeated_bytes", link.repeated_bytes},
                    {"busy_ms", ms(link.busy)},
                    {"busy_bytes_per_s", link.bytes_per_s()},
                    {"ends", link.estimated ? "estimated" : "measured"},
                    {"overlapped_with_compute", link.busy > 0 ? link.overlapped / link.busy : 0},
                    {"hidden_behind_compute", link.busy > 0 ? link.hidden / link.busy : 0},
                    {"phases", std::move(phases)}});
  }
  return list;
}

json memory_of(const Analysis& analysis) {
  json list = json::array();
  for (const MemoryUse& use : analysis.memory) {
    json after = json::array();
    for (const auto& [step, bytes] : use.after_step)
      after.push_back({{"step", step}, {"bytes", bytes}});
    json in_steps = json::array();
    for (const MemoryUse::InStep& each : use.in_steps)
      in_steps.push_back(
          {{"step", each.step}, {"lowest_bytes", each.lowest}, {"peak_bytes", each.peak}});
    json at_peak;
    for (const MemoryPoint& point : use.curve)
      if (at_peak.is_null() && point.total() == use.peak) at_peak = point.bytes;
    list.push_back({{"rank", use.rank},
                    {"node", use.node},
                    {"name", use.name},
                    {"capacity_bytes", use.capacity ? json(*use.capacity) : json()},
                    {"peak_bytes", use.peak},
                    {"lowest_bytes", use.lowest},
                    {"at_peak", std::move(at_peak)},
                    {"after_step", std::move(after)},
                    {"in_steps", std::move(in_steps)}});
  }
  return list;
}

json disks_of(const Analysis& analysis) {
  json list = json::array();
  for (const DiskUse& disk : analysis.disks)
    list.push_back({{"rank", disk.rank},
                    {"disk", disk.disk},
                    {"operation", disk.operation},
                    {"bytes", disk.bytes},
                    {"transfers", disk.transfers},
                    {"busy_ms", ms(disk.busy)},
                    {"busy_bytes_per_s", disk.bytes_per_s()},
                    {"hidden_behind_compute", disk.busy > 0 ? disk.hidden / disk.busy : 0},
                    {"flush_ms", ms(disk.flushing)}});
  return list;
}

json activations_of(const Analysis& analysis) {
  json list = json::array();
  for (const ActivationCost& cost : analysis.activations)
    list.push_back({{"class", cost.name},
                    {"where", cost.where},
                    {"bytes_a_step", cost.bytes},
                    {"ms_a_step", ms(cost.time)},
                    {"hidden_ms_a_step", ms(cost.hidden())},
                    {"exposed_ms_a_step", ms(cost.exposed)}});
  return list;
}

json checkpoints_of(const Analysis& analysis) {
  json list = json::array();
  for (const CheckpointUse& use : analysis.checkpoints)
    list.push_back({{"rank", use.rank},
                    {"step", use.step},
                    {"ms", ms(use.time.end - use.time.start)},
                    {"bytes", use.bytes},
                    {"bytes_per_s", use.bytes_per_s()},
                    {"copied_bytes", use.copied_bytes},
                    {"held_ms", ms(use.held)},
                    {"waited_ms", ms(use.waited)}});
  return list;
}

json placements_of(const Analysis& analysis) {
  json list = json::array();
  for (const PlacementUse& use : analysis.placements)
    list.push_back({{"step", use.step},
                    {"params", use.params},
                    {"planned_device_params", use.planned_device},
                    {"executed_device_params", use.executed_device},
                    {"moved_updates", use.moved}});
  return list;
}

}  // namespace

json to_json(const Trace& trace, const Analysis& analysis) {
  const TraceManifest& first = trace.ranks.front();
  json phases;
  for (const auto& [phase, busy] : analysis.phase_busy) phases[phase] = ms(busy);
  json time;
  for (const Use use : kUses) time[name_of(use)] = analysis.idle_share(use);
  json losses = json::array();
  for (const Loss& loss : analysis.losses)
    losses.push_back({{"what", loss.what},
                      {"remedy", loss.remedy},
                      {"worker_ms_a_step", ms(loss.worker_us)},
                      {"share", loss.share}});
  return {{"run", first.run},
          {"policy", first.policy},
          {"model", first.model},
          {"ranks", first.ranks},
          {"warnings", trace.warnings},
          {"median_step_ms", ms(analysis.median_step)},
          {"task_ms", ms(analysis.task_us)},
          {"window_ms", ms(analysis.window.end - analysis.window.start)},
          {"steps", steps_of(analysis)},
          {"phase_busy_ms", std::move(phases)},
          {"time_shares", std::move(time)},
          {"workers", workers_of(analysis)},
          {"links", links_of(analysis)},
          {"memory", memory_of(analysis)},
          {"disks", disks_of(analysis)},
          {"activations", activations_of(analysis)},
          {"checkpoints", checkpoints_of(analysis)},
          {"placements", placements_of(analysis)},
          {"losses", std::move(losses)}};
}

}  // namespace dos::trace

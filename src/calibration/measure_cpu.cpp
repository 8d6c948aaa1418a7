// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"
#include "calibration/measured_rates.hpp"

namespace dos::calibration {
namespace {

/// One-parameter updates: enough of them to keep a worker busy while they are submitted.
constexpr Index kSmallTasks = 64;
/// A latency needs no long readings, and pending tasks should stay few.
constexpr double kLatencySeconds = 0.05;

/// Seconds a task from the rate of tasks.
Result task_latency(const Meter& meter, const codelets::UpdateKind& kind) {
  Effort effort = meter.effort();
  effort.least_seconds = std::min(effort.least_seconds, kLatencySeconds);
  const UpdateSet small(meter.submitter(), kind, kSmallTasks, 1);
  const int worker = rt::cpu_workers().front();
  const Summary tasks =
      Meter(meter.submitter(), effort).rate(kSmallTasks, [&] { small.submit_updates(worker); });
  Result result = measured("node.task_latency", tasks,
                           "updates of one parameter on one worker, submission included");
  result.value = 1 / result.value;
  return result;
}

}  // namespace

std::string name_of(const codelets::UpdateKind& kind) {
  return fmt::format("{} {}.{}", codelets::all_rules()[static_cast<std::size_t>(kind.rule)].name,
                     dos::name_of(kind.gradient), dos::name_of(kind.working));
}

UpdateSet make_cpu_set(rt::Submitter& submitter, const codelets::UpdateKind& kind,
                       const Sizes& sizes) {
  // With four a worker, one that ends late delays the rest by a fraction.
  constexpr Index kEach = 4;
  const Index params = std::max<Index>(1, sizes.cpu_bytes / stored_bytes_per_parameter(kind));
  const Index least = kEach * submitter.session().cpu_workers();
  const Index subgroups = std::max(least, ceil_div(params, sizes.cpu_params));
  return {submitter, kind, subgroups, std::max<Index>(1, params / subgroups)};
}

std::vector<Result> measure_cpu(const Meter& meter, const codelets::UpdateKind& kind,
                                const UpdateSet& set) {
  const Index workers = meter.session().cpu_workers();
  const std::string data =
      fmt::format("{} subgroups of {:.3g} M parameters, {:.3g} B each", set.subgroups(),
                  set.params() / 1e6 / static_cast<double>(set.subgroups()),
                  set.traffic_bytes() / set.params());
  const int one = rt::cpu_workers().front();
  std::vector<Result> results;
  results.push_back(measured(
      "cpu.update_rate", meter.rate(set.params(), [&] { set.submit_updates(rt::kAnyCpuWorker); }),
      fmt::format("fused update {}, {} workers, {}", name_of(kind), workers, data)));
  results.push_back(measured("cpu.worker_rate",
                             meter.rate(set.params(), [&] { set.submit_updates(one); }),
                             "the same on one worker"));
  results.push_back(measured(
      "dram.bandwidth", meter.rate(set.traffic_bytes(), [&] { set.submit_streams(); }),
      fmt::format("additions over the same arrays, read and written, {} workers", workers)));
  results.push_back(task_latency(meter, kind));
  return results;
}

}  // namespace dos::calibration

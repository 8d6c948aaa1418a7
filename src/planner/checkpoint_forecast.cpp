// SPDX-License-Identifier: Apache-2.0
#include "planner/checkpoint_forecast.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "sched/replay.hpp"

namespace dos::planner {
namespace {

constexpr double kMasterBytes = 4;
constexpr double kRoundedBytes = 2;
// docs/performance/checkpoints.md: seconds of a core for the sums, a byte of twelve a parameter,
// and for the engine, a byte written.
constexpr double kSumOfByte = 0.28e-9 / 12;
constexpr double kWriteOfByte = 6e-12;

/// When a subgroup's update runs, from the beginning of the update phase on.
struct UpdateTime {
  units::Seconds start{std::numeric_limits<double>::infinity()};
  units::Seconds end;
};

std::vector<UpdateTime> update_times(const Forecast& forecast) {
  std::vector<UpdateTime> times(forecast.problem.subgroups.size());
  const sched::Replay replay = sched::replay(forecast.problem, forecast.plan, /*record=*/true);
  for (const sched::Activity& activity : replay.activities) {
    const bool is_update =
        activity.work == sched::Work::kCpuUpdate || activity.work == sched::Work::kGpuUpdate;
    // States that come home are saved from there.
    if (!is_update && activity.work != sched::Work::kStateOut) continue;
    UpdateTime& time = times[static_cast<std::size_t>(activity.subgroup)];
    if (is_update) time.start = std::min(time.start, activity.start);
    time.end = std::max(time.end, activity.end);
  }
  return times;
}

units::BytesPerSecond rate_of_rank(const Request& request, const Forecast& forecast,
                                   const CheckpointStorage& storage) {
  const auto of_node = static_cast<double>(forecast.layout.ranks_per_node);
  return std::min(storage.node / of_node, storage.total / static_cast<double>(request.ranks));
}

/// Bytes a second that leave the GPU which a subgroup is at home on.
units::BytesPerSecond way_home(const sched::Problem& problem, const sched::Assignment& assignment) {
  if (!sched::is_resident(assignment))
    return units::BytesPerSecond(std::numeric_limits<double>::infinity());
  return problem.link_of(assignment.home).out;
}

/// The disk that has most of the states; nullopt: none has any.
std::optional<Index> fullest_disk(const sched::Problem& problem, const sched::Plan& plan) {
  std::map<Index, units::Bytes> disks;
  for (Index i = 0; i < std::ssize(plan.assignments); ++i) {
    const Index home = plan.assignments[static_cast<std::size_t>(i)].home;
    if (problem.only_keeps(home)) disks[home] += problem.away_bytes(i);
  }
  if (disks.empty()) return std::nullopt;
  return std::ranges::max_element(disks, {}, [](const auto& each) { return each.second; })->first;
}

/// What a checkpoint writes of each subgroup. It is taken to be on the disk that has most of the
/// states: their files are taken as they are, those of others are copied, as names in its folder
/// are of one file system.
std::vector<units::Bytes> written_bytes(const sched::Problem& problem, const sched::Plan& plan) {
  const std::optional<Index> disk = fullest_disk(problem, plan);
  std::vector<units::Bytes> bytes;
  for (Index i = 0; i < std::ssize(plan.assignments); ++i) {
    const bool is_taken = disk && plan.assignments[static_cast<std::size_t>(i)].home == *disk;
    bytes.push_back(problem.state_bytes(i) - (is_taken ? problem.away_bytes(i) : units::Bytes()));
  }
  return bytes;
}

struct Place {
  const char* name;
  units::BytesPerSecond node;
  units::BytesPerSecond total;
};

std::string row(const Request& request, const Place& place) {
  const Forecast planned = forecast(request);
  if (!planned.fits()) return "";
  const CheckpointForecast result = forecast_checkpoints(request, planned);
  Request copying = request;
  copying.settings.checkpoint_memory = result.own;
  const CheckpointForecast copied = forecast_checkpoints(copying, planned);
  return fmt::format(
      "| {} | {} | {} | {:.1f} | {:.1f} | {:.2f} | {:.1f} | {:.2f} | {} | {:.2f} | {} |\n",
      request.model.name, request.ranks, place.name, result.all.value() / 1e9,
      result.own.value() / 1e9, planned.step.value(), result.write.value(), result.wait.value(),
      result.interval.steps, copied.wait.value(), copied.interval.steps);
}

}  // namespace

units::Bytes checkpoint_bytes(const sched::Problem& problem, const sched::Plan& plan) {
  units::Bytes bytes{0};
  for (const units::Bytes each : written_bytes(problem, plan)) bytes += each;
  return bytes;
}

CheckpointForecast forecast_checkpoints(const Request& request, const Forecast& forecast) {
  const CheckpointStorage& storage = request.storage.value();
  const auto expect_positive = [](double value, const char* what) {
    expect(value > 0, "checkpoints: {} {}: must be positive", what, value);
  };
  expect_positive(storage.node.value(), "GB/s of a node");
  expect_positive(storage.total.value(), "GB/s of all nodes");
  expect_positive(storage.mtbf.value(), "time between failures");
  const sched::Problem& problem = forecast.problem;
  const units::BytesPerSecond rate = rate_of_rank(request, forecast, storage);
  const std::vector<UpdateTime> times = update_times(forecast);
  const units::Seconds update = forecast.plan.time;
  const units::Seconds updates_begin = forecast.step - update;  // of the next step
  const units::Bytes memory = request.settings.checkpoint_memory;
  // A copy reads and writes each byte.
  const units::BytesPerSecond copying = problem.rates.cpu_worker * problem.cost.cpu_traffic / 2;
  const std::vector<units::Bytes> writes = written_bytes(problem, forecast.plan);
  CheckpointForecast result;
  units::Seconds written{-std::numeric_limits<double>::infinity()};
  units::Bytes copied{0};  // from files: no update waits for that
  units::Seconds begin{std::numeric_limits<double>::infinity()};
  // Times from here on count from the end of the update phase that is saved.
  for (Index i = 0; i < std::ssize(problem.subgroups); ++i) {
    const auto place = static_cast<std::size_t>(i);
    const sched::Assignment& assignment = forecast.plan.assignments[place];
    const units::Bytes all = problem.state_bytes(i);
    const bool is_copied = problem.only_keeps(assignment.home) && writes[place] == all;
    const units::Bytes of_file = is_copied ? problem.away_bytes(i) : units::Bytes();
    const units::Bytes bytes = writes[place] - of_file;
    copied += of_file;
    const units::BytesPerSecond slowest = std::min(rate, way_home(problem, assignment));
    const units::Seconds updated = times[place].end - update;
    begin = std::min(begin, updated);
    written = std::max(written, updated) + bytes / slowest;
    const units::Seconds next = updates_begin + times[place].start;
    const units::Bytes unwritten = std::max(units::Seconds(), written - updates_begin) * rate;
    const units::Bytes beyond = std::max(units::Bytes(), unwritten - memory);
    const units::Seconds released =
        unwritten.value() > 0 ? updates_begin + std::max(unwritten / copying, beyond / rate)
                              : written;
    result.wait = std::max(result.wait, released - next);
    result.own += all;
    result.taken += all - writes[place];
  }
  const auto frozen = static_cast<double>(request.model.params() - forecast.trained_params);
  result.all = result.own * static_cast<double>(request.ranks) +
               units::Bytes((request.settings.fp32 ? kMasterBytes : kRoundedBytes) * frozen);
  result.write = written - begin + copied / rate;
  result.slowed = units::Seconds(
      (kSumOfByte * result.own.value() + kWriteOfByte * (result.own - result.taken).value()) /
      static_cast<double>(problem.rates.cpu_workers));
  result.interval = perfmodels::choose_interval({.step_s = forecast.step.value(),
                                                 .write_s = result.write.value(),
                                                 .waited_s = result.wait.value(),
                                                 .slowed_s = result.slowed.value()},
                                                storage.mtbf.value());
  return result;
}

std::string checkpoint_tables(const std::filesystem::path& machines, ModelFinder find_model) {
  std::string text =
      "| model | ranks | to | checkpoint, GB | of a rank, GB | step, s | written in, s | one every "
      "step would wait, s | `auto`: steps | with copies, s | steps |\n"
      "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const char* model : {"llama-7b", "llama-20b", "llama-70b"})
    for (const Index ranks : {4, 8, 16, 32, 64}) {
      Request request;
      request.machine = perfmodels::find_machine("a100-4x", machines);
      request.model = find_model(model);
      request.ranks = ranks;
      // Polaris, of arXiv 2406.10707: disks of the nodes, and Lustre behind each node's network.
      const Place places[] = {
          {"disks of nodes", units::gigabytes_per_second(2),
           units::BytesPerSecond(std::numeric_limits<double>::infinity())},
          {"Lustre", request.machine.network->bandwidth.value, units::gigabytes_per_second(650)}};
      for (const Place& place : places) {
        request.storage = {.node = place.node, .total = place.total};
        text += row(request, place);
      }
    }
  return text;
}

}  // namespace dos::planner

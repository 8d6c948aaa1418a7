// SPDX-License-Identifier: Apache-2.0
#include "calibration/calibrate.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/local_time.hpp"
#include "base/nearest.hpp"
#include "base/scoped_environment.hpp"
#include "base/streams.hpp"
#include "base/units.hpp"
#include "calibration/calibration_report.hpp"
#include "calibration/histories.hpp"
#include "calibration/measured_rates.hpp"
#include "calibration/update_set.hpp"
#include "codelets/all.hpp"
#include "platform/blas.hpp"
#include "platform/memory_limits.hpp"
#include "platform/topology.hpp"
#include "rt/cuda.hpp"
#include "rt/history_model.hpp"

namespace dos::calibration {
namespace {

using codelets::UpdateKind;
using perfmodels::Machine;

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const codelets::RuleInfo& rule : codelets::all_rules()) names.emplace_back(rule.name);
  return names;
}

UpdateKind kind_of(const Options& options) {
  const std::vector<std::string> names = rule_names();
  const auto found = std::find(names.begin(), names.end(), options.rule);
  const DType type = options.precision == "bf16" ? DType::kBF16 : DType::kF32;
  return {.rule = found - names.begin(), .gradient = type, .working = type};
}

/// Data of some caches' size is cut into subgroups: smaller ones would be millions of tasks, of
/// which only what StarPU itself takes would show.
constexpr Index kLeastSubgroup = 1000;
// Far above what is of use; StarPU counts in int.
constexpr Index kMostWorkers = 100'000;
constexpr Index kMostDevices = 1'000;

Effort effort_of(const Options& options) {
  Effort effort;
  effort.most_spread = options.most_spread;
  if (options.quick) {
    effort.rounds = 3;
    effort.attempts = 1;
    effort.least_seconds = 0.005;
  }
  return effort;
}

Sizes sizes_of(const Options& options, const platform::Topology& topology) {
  const Index subgroup = *std::ranges::max_element(options.subgroup_params);
  if (options.quick)
    return {.cpu_bytes = 4 * kMiB,
            .cpu_params = subgroup,
            .device_params = 16'384,
            .link_bytes = kMiB / 4};
  // Twice the caches, so that none of it is there when it is used again.
  constexpr Index kLeast = 256 * kMiB;
  const Index memory = platform::memory_left().bytes;
  return {.cpu_bytes = std::min(std::max(kLeast, 2 * topology.last_level_cache_bytes), memory / 4),
          .cpu_params = subgroup,
          .device_params = std::min(Index{16'000'000}, memory / 1024),
          .link_bytes = std::min(64 * kMiB, memory / 256)};
}

Conditions conditions_of(const platform::Topology& topology) {
  Conditions conditions;
  conditions.cores = topology.cores;
  static_cast<void>(::getloadavg(&conditions.load, 1));
  std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") >> conditions.governor;
  return conditions;
}

/// What the file holds now. Throws Error for what a calibration must not replace.
std::optional<Machine> read_before(const Options& options, const std::string& host) {
  const std::filesystem::path& path = options.output;
  if (!std::filesystem::exists(path)) return std::nullopt;
  expect(std::filesystem::is_regular_file(path),
         "--output {}: is there already and no file: choose another --output", path.string());
  constexpr const char* kRemedy = "choose another --output, or replace it with --force";
  std::optional<Machine> before;
  try {
    before = perfmodels::parse_machine(read_text(path), path.string(), path.stem().string());
  } catch (const Error& error) {
    if (!options.force) fail("{}; {}", error.what(), kRemedy);
    return std::nullopt;
  }
  if (options.force) return before;
  expect(before->calibration.has_value(), "--output {}: was not written by calibrate: {}",
         path.string(), kRemedy);
  expect(before->calibration->host.name == host,
         "--output {}: was calibrated on '{}', this is '{}': {}", path.string(),
         before->calibration->host.name, host, kRemedy);
  return before;
}

/// The file to be, opened at once: a place that cannot be written to is told before the
/// measurement.
DurableFile open_output(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  expect(path.extension() == ".toml", "--output {}: the name of a machine file ends in .toml",
         path.string());
  expect(std::filesystem::is_directory(folder), "--output {}: there is no folder {}: make it",
         path.string(), folder.string());
  return DurableFile(path);
}

void expect_workers(const Options& options, const rt::Session& session) {
  const Index cpus = session.cpu_workers();
  expect(cpus > 0, "StarPU has no CPU worker here: raise STARPU_NCPU, or use fewer devices");
  expect(options.workers == 0 || cpus == options.workers,
         "--workers {}: StarPU can run {} here: lower it, or leave it 0", options.workers, cpus);
  expect(options.opencl_devices <= 0 || session.opencl_workers() == options.opencl_devices,
         "--opencl-devices {}: StarPU finds {} here: lower it, or see clinfo and "
         "STARPU_OPENCL_ON_CPUS",
         options.opencl_devices, session.opencl_workers());
  expect(options.cuda_devices <= 0 || session.cuda_workers() == options.cuda_devices,
         "--cuda-devices {}: StarPU {} finds {} here: lower it, or see nvidia-smi",
         options.cuda_devices, rt::Session::version(), session.cuda_workers());
}

/// StarPU would end the program when it reads a damaged model. Those are measured anew in any case,
/// and calibrate is what other programs send a user to who has one.
void set_unreadable_histories_aside() {
  std::vector<const rt::Codelet*> used = codelets::all_codelets();
  std::ranges::copy(set_codelets(), std::back_inserter(used));
  for (const rt::Codelet* codelet : used)
    if (const std::string said = rt::set_unreadable_history_aside(codelet->symbol()); !said.empty())
      streams::print("{}\n", said);
}

struct Measured {
  std::vector<Result> results;
  std::string description;
  std::string missing;  ///< "": nothing
};

std::string describe(const platform::Topology& topology, const std::vector<rt::Device>& devices) {
  std::string text = fmt::format(
      "{}, {} cores", topology.processor.empty() ? "unknown processor" : topology.processor,
      topology.cores);
  for (const rt::Device& device : devices) text += ", " + device.name;
  return devices.empty() ? text + ", no GPU" : text;
}

std::string missing_devices() {
  return fmt::format(
      "no GPU was measured ({}; OpenCL devices join with --opencl-devices): a plan for this "
      "machine "
      "leaves every update on the CPU",
      rt::has_cuda() ? "StarPU finds no CUDA device"
                     : "StarPU " + rt::Session::version() + " was built without CUDA");
}

std::vector<Disk> disks_of(const Options& options) {
  std::vector<Disk> disks;
  for (const std::string& text : options.disks) {
    disks.push_back(parse_disk(text));
    const Disk& disk = disks.back();
    expect(std::ranges::count(disks, disk.name, &Disk::name) == 1,
           "--disk {}: another one is called {}: give each a name of its own", text, disk.name);
    expect_measurable(disk, test_file_bytes(disk, options.quick));
  }
  return disks;
}

Measured measure(const Options& options, const rt::SessionConfig& config,
                 const platform::Topology& topology, const std::vector<Disk>& disks) {
  rt::Session session(config);
  expect_workers(options, session);
  set_unreadable_histories_aside();
  rt::Submitter submitter(session);
  const Meter meter(submitter, effort_of(options));
  const std::vector<rt::Device> devices = rt::devices();
  const UpdateKind kind = kind_of(options);
  const Sizes sizes = sizes_of(options, topology);
  const UpdateSet set = make_cpu_set(submitter, kind, sizes);

  Measured measured;
  measured.description = describe(topology, devices);
  measured.results = {counted("node.gpus", std::ssize(devices), "devices with a StarPU worker"),
                      counted("node.cpu_workers", session.cpu_workers(), "StarPU's CPU workers"),
                      counted("dram.capacity", platform::physical_memory_bytes(),
                              "memory that the kernel manages")};
  const auto add = [&](std::vector<Result> more) {
    std::ranges::move(more, std::back_inserter(measured.results));
  };
  add(measure_cpu(meter, kind, set));
  add(measure_training(meter, devices));
  if (devices.empty())
    measured.missing = missing_devices();
  else
    add(measure_devices(meter, kind, devices, sizes, set));
  for (const Disk& disk : disks)
    add(measure_disk(meter, disk, test_file_bytes(disk, options.quick), set));
  reconcile(measured.results);
  return measured;
}

}  // namespace

void Options::validate() const {
  expect(!subgroup_params.empty(), "--subgroup-params needs at least one size");
  for (const Index params : subgroup_params)
    expect(params >= kLeastSubgroup && params <= (Index{1} << 32) - 1,
           "--subgroup-params {}: must lie between {} and 2^32 - 1", params, kLeastSubgroup);
  const std::vector<std::string> rules = rule_names();
  expect(std::ranges::find(rules, rule) != rules.end(), "--rule '{}' is unknown{}; known: {}", rule,
         did_you_mean(rule, rules), fmt::join(rules, ", "));
  expect(precision == "fp32" || precision == "bf16",
         "--precision '{}' is unknown; known: fp32, bf16", precision);
  expect(std::isfinite(most_spread) && most_spread >= 0,
         "--max-spread {:g}: must be a number of at least 0", most_spread);
  expect(workers >= 0 && workers <= kMostWorkers,
         "--workers {}: must lie between 0 (as many as StarPU takes) and {}", workers,
         kMostWorkers);
  const auto expect_count = [](const char* option, Index devices) {
    expect(devices >= -1 && devices <= kMostDevices, "{} {}: must lie between -1 (all) and {}",
           option, devices, kMostDevices);
  };
  expect_count("--opencl-devices", opencl_devices);
  expect_count("--cuda-devices", cuda_devices);
}

void calibrate(const Options& options) {
  options.validate();
  const platform::Topology topology = platform::read_topology();
  const std::string host = platform::host_name();
  const std::optional<Machine> before = read_before(options, host);
  const std::vector<Disk> disks = disks_of(options);
  DurableFile file = open_output(options.output);
  Conditions conditions = conditions_of(topology);
  platform::blas::use_one_thread();
  // Every task of a measurement names its workers: a policy that plans would only be in the way.
  ScopedEnvironment environment;
  environment.remove("STARPU_SCHED");
  const rt::SessionConfig config{.scheduler = "eager",
                                 .cpu_workers = options.workers == 0 ? -1 : options.workers,
                                 .opencl_workers = options.opencl_devices,
                                 .cuda_workers = options.cuda_devices};
  const std::optional<platform::ProcessorTime> start = platform::processor_time();
  const double own_start = platform::own_processor_seconds();
  Measured measured = measure(options, config, topology, disks);
  if (const auto end = platform::processor_time(); start && end)
    conditions.taken = taken_by_others(*start, *end, platform::own_processor_seconds() - own_start);
  streams::print("{}: {}\n{}", host, measured.description, table(measured.results));
  if (!measured.missing.empty()) streams::print("{}\n", measured.missing);

  const std::string refused = objection(measured.results, effort_of(options), conditions);
  if (!options.allow_noise && !refused.empty()) fail("{}", refused);
  if (conditions.taken > kMostTaken)
    measured.description +=
        fmt::format(", while others had {:.0f} % of the processors' time", conditions.taken * 100);
  const perfmodels::Calibration calibration{.host = {.name = host,
                                                     .cores = topology.cores,
                                                     .nvidia_gpus = std::ssize(rt::cuda_bus_ids())},
                                            .date = fmt::format("{:%Y-%m-%d}", local_time()),
                                            .starpu = rt::Session::version()};
  Machine machine = assemble(measured.results, calibration,
                             measured.description + (options.quick ? " (--quick)" : ""), before);
  for (const Disk& disk : disks)
    std::ranges::find(machine.tiers, disk.name, &perfmodels::Tier::name)->folders = {
        std::filesystem::canonical(disk.folder).string()};
  if (before)
    streams::print("{}",
                   changes_text(changes(*before, machine),
                                before->calibration ? before->calibration->date : "another hand"));
  prime_histories(config, kind_of(options), options.subgroup_params,
                  platform::memory_left().bytes / 2);
  streams::print(
      "history models of {} for subgroups of {} parameters: {} runs or more on each kind of "
      "worker\n",
      codelets::update_codelet(kind_of(options)).symbol(), fmt::join(options.subgroup_params, ", "),
      kHistoryRuns);
  file.write(perfmodels::machine_text(machine));
  file.commit();
  streams::print("wrote {}; use it: plan --machine {}\n", options.output.string(),
                 options.output.string());
}

}  // namespace dos::calibration

// SPDX-License-Identifier: Apache-2.0
#include "perfmodels/machine.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/nearest.hpp"

namespace dos::perfmodels {
namespace {

using Rate = Sourced<units::BytesPerSecond>;

constexpr double kGiga = 1e9;

using Place = std::function<std::string(const std::string& key)>;

// Rounded numbers of one measurement may miss by a little.
constexpr double kRounding = 1.001;
/// More than any node has today. A rank may have all of them: the linear programme for so
/// many takes a second.
constexpr Index kMostGpus = 128;

void expect_at_most(const Place& place, const char* low_key, const std::optional<Rate>& low_rate,
                    const char* high_key, const Rate& high) {
  if (!low_rate || low_rate->value <= high.value) return;
  fail(
      "{}: {} = {:g} GB/s is above {} = {:g} GB/s: a busy CPU cannot make a link faster; measure "
      "again",
      place(low_key), low_key, low_rate->value.value() / kGiga, high_key,
      high.value.value() / kGiga);
}

void check_workers(const Machine& machine, const Place& place) {
  if (!machine.cpu_worker_rate) return;
  // One worker alone has caches, DRAM and frequency to itself, and both rates have their noise:
  // what is further off was measured on something else.
  constexpr double kCompany = 1.25;
  const double one = machine.cpu_worker_rate->value.value() / kGiga;
  const double all = machine.cpu_update_rate.value.value() / kGiga;
  const Index workers = machine.cpu_workers.value;
  if (one > all * kCompany)
    fail(
        "{}: cpu.worker_rate = {:g} Gparam/s of one worker is above cpu.update_rate = {:g} of all: "
        "measure again",
        place("cpu.worker_rate"), one, all);
  if (one * static_cast<double>(workers) * kCompany < all)
    fail(
        "{}: cpu.update_rate = {:g} Gparam/s is more than node.cpu_workers = {} workers of "
        "cpu.worker_rate = {:g} reach: measure again",
        place("cpu.update_rate"), all, workers, one);
}

void check_links(const Machine& machine, const Place& place) {
  const double slower = std::max(machine.h2d.value, machine.d2h.value).value();
  const double sum = (machine.h2d.value + machine.d2h.value).value();
  const double both = machine.both.value.value();
  if (both * kRounding < slower || both > sum * kRounding)
    fail(
        "{}: link.both = {:g} GB/s must lie between the faster direction ({:g}) and the sum of "
        "both ({:g})",
        place("link.both"), both / kGiga, slower / kGiga, sum / kGiga);
  expect_at_most(place, "link.h2d_cpu_busy", machine.h2d_cpu_busy, "link.h2d", machine.h2d);
  expect_at_most(place, "link.d2h_cpu_busy", machine.d2h_cpu_busy, "link.d2h", machine.d2h);
  expect_at_most(place, "link.both_cpu_busy", machine.both_cpu_busy, "link.both", machine.both);
  if (!machine.both_cpu_busy) return;
  const double busy = machine.both_cpu_busy->value.value();
  const double busy_sum = (machine.h2d_cpu_busy.value_or(machine.h2d).value +
                           machine.d2h_cpu_busy.value_or(machine.d2h).value)
                              .value();
  if (busy > busy_sum * kRounding)
    fail(
        "{}: link.both_cpu_busy = {:g} GB/s is above the sum of link.h2d_cpu_busy and "
        "link.d2h_cpu_busy ({:g}): measure again",
        place("link.both_cpu_busy"), busy / kGiga, busy_sum / kGiga);
}

}  // namespace

void Machine::validate(const std::function<std::string(const std::string& key)>& place) const {
  const auto traffic = cpu_update_rate.value * kCpuUpdateTraffic;
  if (traffic > dram_bandwidth.value * kRounding)
    fail(
        "{}: cpu.update_rate = {:g} Gparam/s moves {:g} GB/s, dram.bandwidth is {:g} GB/s: one of "
        "them is wrong",
        place("cpu.update_rate"), cpu_update_rate.value.value() / kGiga, traffic.value() / kGiga,
        dram_bandwidth.value.value() / kGiga);
  check_workers(*this, place);
  if (gpus.value > kMostGpus)
    fail("{}: node.gpus = {} must be at most {}", place("node.gpus"), gpus.value, kMostGpus);
  if (gpus.value > 0) check_links(*this, place);
}

std::vector<std::string> machine_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Machine find_machine(const std::string& name, const std::filesystem::path& folder,
                     const Host& host) {
  if (name.ends_with(".toml")) {
    const std::filesystem::path path(name);
    return parse_machine(read_text(path), path.string(), path.stem().string());
  }
  const bool here = name == "this";
  const std::filesystem::path path = folder / ((here ? host.name : name) + ".toml");
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    expect(!here,
           "machine 'this' needs {}, which does not exist: run calibrate, write the rates of this "
           "machine there (docs/adding/machine.md), or name another machine",
           path.string());
    const std::vector<std::string> known = machine_names(folder);
    fail("unknown machine '{}'{}; known in {}: {}", name, did_you_mean(name, known),
         folder.string(), fmt::join(known, ", "));
  }
  Machine machine = parse_machine(read_text(path), path.string(), path.stem().string());
  if (here) expect_measured_on(host, machine, path.string());
  return machine;
}

void expect_measured_on(const Host& host, const Machine& machine, const std::string& file) {
  if (!machine.calibration) return;
  const Host& then = machine.calibration->host;
  constexpr const char* kRemedy = "run calibrate again, or give the file by its path to use it";
  expect(then.name == host.name, "{}: calibrated on host '{}', this is '{}': {}", file, then.name,
         host.name, kRemedy);
  expect(then.cores == host.cores, "{}: calibrated with {} cores, this process may use {}: {}",
         file, then.cores, host.cores, kRemedy);
  expect(then.nvidia_gpus == host.nvidia_gpus,
         "{}: calibrated with {} NVIDIA GPUs in the machine, now it has {}: {}", file,
         then.nvidia_gpus, host.nvidia_gpus, kRemedy);
}

}  // namespace dos::perfmodels

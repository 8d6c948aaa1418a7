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

void expect_at_most(const std::string& where, const char* low_key,
                    const std::optional<Rate>& low_rate, const char* high_key, const Rate& high) {
  if (!low_rate) return;
  expect(low_rate->value <= high.value,
         "{}: {} = {:g} GB/s is above {} = {:g} GB/s: a busy CPU cannot make a link faster; "
         "measure again",
         where, low_key, low_rate->value.value() / kGiga, high_key, high.value.value() / kGiga);
}

}  // namespace

void Machine::validate(const std::string& where) const {
  // Rounded numbers of one measurement may miss by a little.
  constexpr double kRounding = 1.001;
  const auto traffic = cpu_update_rate.value * kCpuUpdateTraffic;
  expect(traffic <= dram_bandwidth.value * kRounding,
         "{}: cpu.update_rate = {:g} Gparam/s moves {:g} GB/s, dram.bandwidth is {:g} GB/s: one of "
         "them is wrong",
         where, cpu_update_rate.value.value() / kGiga, traffic.value() / kGiga,
         dram_bandwidth.value.value() / kGiga);
  if (gpus.value == 0) return;
  const double slower = std::max(h2d.value, d2h.value).value();
  const double sum = (h2d.value + d2h.value).value();
  expect(both.value.value() * kRounding >= slower && both.value.value() <= sum * kRounding,
         "{}: link.both = {:g} GB/s must lie between the faster direction ({:g}) and the sum of "
         "both ({:g})",
         where, both.value.value() / kGiga, slower / kGiga, sum / kGiga);
  expect_at_most(where, "link.h2d_cpu_busy", h2d_cpu_busy, "link.h2d", h2d);
  expect_at_most(where, "link.d2h_cpu_busy", d2h_cpu_busy, "link.d2h", d2h);
  expect_at_most(where, "link.both_cpu_busy", both_cpu_busy, "link.both", both);
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

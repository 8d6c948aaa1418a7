// SPDX-License-Identifier: Apache-2.0
#include "perfmodels/machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
/// More than any node has; each adds a variable a GPU to the programme.
constexpr Index kMostTiers = 8;

void expect_at_most(const Place& place, const std::string& low_key,
                    const std::optional<Rate>& low_rate, const std::string& high_key,
                    const Rate& high) {
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

/// Of one link. Its keys with "_cpu_busy" are those of a busy CPU.
struct LinkNumbers {
  std::string in_key, out_key, both_key;
  const Rate& in;
  const Rate& out;
  const std::optional<Rate>& both;
  const std::optional<Rate>& in_cpu_busy;
  const std::optional<Rate>& out_cpu_busy;
  const std::optional<Rate>& both_cpu_busy;
  const char* remedy = "";  ///< where `both` lies outside
};

void check_link(const LinkNumbers& link, const Place& place) {
  const auto busy = [](const std::string& key) { return key + "_cpu_busy"; };
  if (link.both) {
    const double slower = std::max(link.in.value, link.out.value).value();
    const double sum = (link.in.value + link.out.value).value();
    const double both = link.both->value.value();
    if (both * kRounding < slower || both > sum * kRounding)
      fail(
          "{}: {} = {:g} GB/s must lie between the faster direction ({:g}) and the sum of both "
          "({:g}){}",
          place(link.both_key), link.both_key, both / kGiga, slower / kGiga, sum / kGiga,
          link.remedy);
  }
  expect_at_most(place, busy(link.in_key), link.in_cpu_busy, link.in_key, link.in);
  expect_at_most(place, busy(link.out_key), link.out_cpu_busy, link.out_key, link.out);
  if (!link.both_cpu_busy) return;
  const std::string key = busy(link.both_key);
  if (!link.both)
    fail("{}: {} is given, but not {}: give both or none", place(key), key, link.both_key);
  expect_at_most(place, key, link.both_cpu_busy, link.both_key, *link.both);
  const double both_busy = link.both_cpu_busy->value.value();
  const double busy_sum =
      (link.in_cpu_busy.value_or(link.in).value + link.out_cpu_busy.value_or(link.out).value)
          .value();
  if (both_busy > busy_sum * kRounding)
    fail("{}: {} = {:g} GB/s is above the sum of {} and {} ({:g}): measure again", place(key), key,
         both_busy / kGiga, busy(link.in_key), busy(link.out_key), busy_sum / kGiga);
}

void check_tier(const Tier& tier, const Place& place) {
  const std::string key = "tier." + tier.name;
  expect_tier_name(place(key), tier.name);
  check_link({.in_key = key + ".link.write",
              .out_key = key + ".link.read",
              .both_key = key + ".link.both",
              .in = tier.write,
              .out = tier.read,
              .both = tier.both,
              .in_cpu_busy = tier.write_cpu_busy,
              .out_cpu_busy = tier.read_cpu_busy,
              .both_cpu_busy = tier.both_cpu_busy,
              .remedy = ": leave it out where reads and writes take turns"},
             place);
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
  if (gpus.value > 0) {
    const std::optional<Rate> at_once = both;
    check_link({.in_key = "link.h2d",
                .out_key = "link.d2h",
                .both_key = "link.both",
                .in = h2d,
                .out = d2h,
                .both = at_once,
                .in_cpu_busy = h2d_cpu_busy,
                .out_cpu_busy = d2h_cpu_busy,
                .both_cpu_busy = both_cpu_busy},
               place);
  }
  if (std::ssize(tiers) > kMostTiers)
    fail("{}: {} tiers, at most {} may be given", place("tier." + tiers.back().name), tiers.size(),
         kMostTiers);
  for (const Tier& tier : tiers) check_tier(tier, place);
}

void expect_tier_name(const std::string& place, const std::string& name) {
  for (const char* taken : {"host", "cpu", "gpu", "dram", "downcast"})
    if (name == taken) fail("{}: a tier cannot be called '{}': choose another name", place, taken);
  if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") != std::string::npos)
    fail("{}: tier.name = \"{}\": use lower-case letters, digits, - and _", place, name);
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
    expect(!known.empty(),
           "machine '{}': {} holds no machine file; name a folder that does with --machines, or a "
           "file by its path",
           name, folder.string());
    expect(!std::filesystem::exists(name, ignored),
           "machine '{}': no machine is called so, and it is no machine file, which is called "
           "NAME.toml; known in {}: {}",
           name, folder.string(), fmt::join(known, ", "));
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
         "{}: calibrated with {} NVIDIA GPUs, CUDA now shows {}: {}", file, then.nvidia_gpus,
         host.nvidia_gpus, kRemedy);
}

}  // namespace dos::perfmodels

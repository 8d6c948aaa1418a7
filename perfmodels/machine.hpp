// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "base/types.hpp"

namespace dos::perfmodels {

/// A number of a machine file and where it comes from: a publication, a data sheet, a measurement.
template <class T>
struct Sourced {
  T value{};
  std::string source;
  /// Of what was measured several times: the interquartile range, as a part of the median.
  std::optional<double> spread{};
};

/// What tells one machine, or one job's part of it, from another.
struct Host {
  std::string name;
  Index cores = 0;        ///< that a process may use
  Index nvidia_gpus = 0;  ///< CUDA devices that a process, or the ranks of a node, may use
};

/// Who measured a machine, where and when: written by `calibrate` only.
struct Calibration {
  Host host;
  std::string date;    ///< "2026-11-21"
  std::string starpu;  ///< its version
};

/// What the separate passes of the published code (arXiv 2410.21316, DeepSpeed fork) reach.
struct PublishedMachine {
  Sourced<units::ParamsPerSecond> downcast_rate;   ///< FP32 -> 16 bit on the CPU, node
  Sourced<units::ParamsPerSecond> blocking_flush;  ///< gradient copy with the cast on the CPU, rank
  Sourced<units::ParamsPerSecond> gpu_update_rate;  ///< torch.optim.AdamW, one GPU
};

/// What connects the nodes.
struct Network {
  Sourced<units::BytesPerSecond> bandwidth;  ///< of a node, out and in at once, each
  Sourced<units::Seconds> latency;           ///< of a message
};

/// A place that keeps states and updates nothing, such as disks, of a node. Its link leads to host
/// memory.
struct Tier {
  std::string name;
  Sourced<units::Bytes> capacity;
  Sourced<units::BytesPerSecond> read;                 ///< alone
  Sourced<units::BytesPerSecond> write;                ///< alone
  std::optional<Sourced<units::BytesPerSecond>> both;  ///< at once, their sum; else they take turns
  std::optional<Sourced<units::BytesPerSecond>> read_cpu_busy;
  std::optional<Sourced<units::BytesPerSecond>> write_cpu_busy;
  std::optional<Sourced<units::BytesPerSecond>> both_cpu_busy;
  Sourced<units::Seconds> latency;                 ///< of a copy
  std::optional<Sourced<units::Bytes>> endurance;  ///< that may be written in its life
  /// That lie there: the one in which it was measured, if the file says so, and what a run names.
  std::vector<std::string> folders{};
  // What a run gives it to, which no file says:
  bool keeps_states = true;
  Index activation_folders = 0;  ///< that moved activations are spread over
};

/// A node. Rates of the CPU and of DRAM are of the whole node with every rank at work; rates of
/// GPUs and links are of one GPU with all of them at work.
struct Machine {
  std::string name;
  std::string description;
  std::optional<Calibration> calibration;

  Sourced<Index> gpus;         ///< 0: a machine without GPU
  Sourced<Index> cpu_workers;  ///< threads that update, of the node
  Sourced<units::ParamsPerSecond> cpu_update_rate;
  std::optional<Sourced<units::ParamsPerSecond>> cpu_worker_rate;  ///< one worker alone
  Sourced<units::BytesPerSecond> dram_bandwidth;                   ///< reads and writes together
  Sourced<units::Bytes> dram_capacity;
  /// Forward and backward in BF16, of one GPU, or the CPU.
  Sourced<units::FlopsPerSecond> training_rate;
  std::optional<Sourced<units::FlopsPerSecond>> training_rate_fp32;  ///< nullopt: the same

  // With gpus > 0 only.
  Sourced<units::ParamsPerSecond> gpu_update_rate;  ///< fused kernel, data on the GPU
  Sourced<units::Bytes> gpu_memory;
  Sourced<units::BytesPerSecond> h2d;   ///< alone
  Sourced<units::BytesPerSecond> d2h;   ///< alone
  Sourced<units::BytesPerSecond> both;  ///< both directions at once, their sum
  std::optional<Sourced<units::BytesPerSecond>> h2d_cpu_busy;
  std::optional<Sourced<units::BytesPerSecond>> d2h_cpu_busy;
  std::optional<Sourced<units::BytesPerSecond>> both_cpu_busy;
  std::optional<Sourced<units::BytesPerSecond>> gather;  ///< weights from the other ranks, a GPU
  Sourced<units::Seconds> transfer_latency;
  Sourced<units::Seconds> task_latency;
  std::vector<Tier> tiers;         ///< beside host memory and GPUs
  std::optional<Network> network;  ///< without it only one node can be planned
  std::optional<PublishedMachine> published;

  /// Throws Error when numbers contradict each other. It starts with the place of one of them:
  /// `place` is asked for that of a key that the machine has.
  void validate(const std::function<std::string(const std::string& key)>& place) const;
};

/// FP32 states that an update rule keeps beside the parameter: AdamW's m and v.
inline constexpr Index kAdamwStates = 2;

/// Bytes of a parameter and the FP32 states of its rule.
constexpr units::BytesPerParam state_bytes(Index rule_states) {
  return units::BytesPerParam(4.0 * static_cast<double>(1 + rule_states));
}

/// Bytes of DRAM that a CPU update moves for a parameter: reads and writes it and its states, reads
/// a 16-bit g, writes a 16-bit w.
constexpr units::BytesPerParam update_traffic(Index rule_states) {
  return state_bytes(rule_states) * 2.0 + units::BytesPerParam(4);
}

/// Of AdamW, with which machine files are measured.
inline constexpr units::BytesPerParam kCpuUpdateTraffic = update_traffic(kAdamwStates);

/// Reads a machine file: TOML, each number `{ value = 52.0, unit = "GB/s", source = "..." }`, with
/// `spread = 0.03` where it was measured. docs/adding/machine.md lists keys and units. Throws Error
/// "FILE:LINE: ..." for a syntax error, an unknown or missing key, a wrong unit, a number that is
/// not positive, a missing source, a format of another version, or numbers that contradict each
/// other.
Machine parse_machine(const std::string& text, const std::string& file, const std::string& name);

/// The machine file of a machine: parse_machine() reads it back, numbers with five digits.
std::string machine_text(const Machine& machine);

/// Names of the machine files in a folder, sorted.
std::vector<std::string> machine_names(const std::filesystem::path& folder);

/// Reads `<folder>/<name>.toml`, or the file `name` itself when it ends in ".toml". "this" stands
/// for `host`. Throws Error with the nearest name, naming the file that is missing for "this", or
/// when that file was calibrated on another machine than `host`.
Machine find_machine(const std::string& name, const std::filesystem::path& folder,
                     const Host& host = {});

/// Throws Error, which starts with `place`, unless a tier may have this name.
void expect_tier_name(const std::string& place, const std::string& name);

/// Throws Error unless `machine`, of the given file, was written by hand or calibrated on `host`.
void expect_measured_on(const Host& host, const Machine& machine, const std::string& file);

}  // namespace dos::perfmodels

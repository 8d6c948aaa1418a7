// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "base/types.hpp"
#include "perfmodels/machine.hpp"

namespace dos::perfmodels {

/// What StarPU's simulation takes for a buffer in GPU memory. cudaMalloc of some 10 MB takes about
/// as long.
inline constexpr units::Seconds kAllocation{175e-6};

/// One GPU and its link as one rank sees them.
struct GpuRates {
  units::ParamsPerSecond update;
  units::BytesPerSecond h2d;   ///< alone
  units::BytesPerSecond d2h;   ///< alone
  units::BytesPerSecond both;  ///< both directions at once, their sum
  /// Limits that hold while a CPU update runs; equal to the above where nothing was measured (the
  /// shared DRAM bandwidth then limits alone).
  units::BytesPerSecond h2d_cpu_busy;
  units::BytesPerSecond d2h_cpu_busy;
  units::BytesPerSecond both_cpu_busy;
  /// How long a streamed update that has come waits for the GPU, which computes something else, as
  /// far as that is to cost nothing.
  units::Seconds wait{0};

  bool operator==(const GpuRates&) const = default;
};

/// What joins a tier with host memory, as one rank sees it.
struct LinkRates {
  units::BytesPerSecond in;    ///< to the tier, alone
  units::BytesPerSecond out;   ///< from it, alone
  units::BytesPerSecond both;  ///< both directions at once, their sum
  units::BytesPerSecond in_cpu_busy;
  units::BytesPerSecond out_cpu_busy;
  units::BytesPerSecond both_cpu_busy;
  units::Seconds latency;    ///< of a copy
  bool half_duplex = false;  ///< reads and writes take turns

  bool operator==(const LinkRates&) const = default;
};

/// A place that keeps states and updates nothing: a disk, another node's memory.
struct TierRates {
  std::string name;
  units::Bytes capacity;
  LinkRates link;

  bool operator==(const TierRates&) const = default;
};

/// The published code's passes, for one rank.
struct PublishedRates {
  units::ParamsPerSecond downcast;
  units::ParamsPerSecond blocking_flush;
  units::ParamsPerSecond gpu_update;

  bool operator==(const PublishedRates&) const = default;
};

/// What one rank may count on while all ranks of its node work.
struct Rates {
  Index cpu_workers = 1;
  units::ParamsPerSecond cpu_update;  ///< all workers together
  units::ParamsPerSecond cpu_worker;  ///< one worker when the others are idle
  units::BytesPerSecond dram;
  std::vector<GpuRates> gpus;
  std::vector<TierRates> tiers;
  units::Seconds transfer_latency;
  units::Seconds task_latency;
  /// Of a buffer in GPU memory that was not there before. Copies go on meanwhile; the GPUs of a
  /// process wait for each other.
  units::Seconds allocation = kAllocation;
  std::optional<PublishedRates> published;

  bool operator==(const Rates&) const = default;
  /// Throws Error when a rate is not positive and finite, or a latency negative.
  void validate() const;
};

/// The rates of updates by a rule with so many states, where `rates` are AdamW's: kernels of
/// updates are bound by memory (docs/performance/update.md), so rates follow the bytes that they
/// move.
Rates rates_of_rule(Rates rates, Index rule_states);

/// The share of one of `ranks` equal ranks on the node. GPUs are dealt evenly: throws Error when
/// they are not a multiple of the ranks.
Rates rates_of(const Machine& machine, Index ranks);

}  // namespace dos::perfmodels

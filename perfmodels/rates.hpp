// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
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
};

/// The published code's passes, for one rank.
struct PublishedRates {
  units::ParamsPerSecond downcast;
  units::ParamsPerSecond blocking_flush;
  units::ParamsPerSecond gpu_update;
};

/// What one rank may count on while all ranks of its node work.
struct Rates {
  Index cpu_workers = 1;
  units::ParamsPerSecond cpu_update;  ///< all workers together
  units::ParamsPerSecond cpu_worker;  ///< one worker when the others are idle
  units::BytesPerSecond dram;
  std::vector<GpuRates> gpus;
  units::Seconds transfer_latency;
  units::Seconds task_latency;
  /// Of a buffer in GPU memory that was not there before. Copies go on meanwhile; the GPUs of a
  /// process wait for each other.
  units::Seconds allocation = kAllocation;
  std::optional<PublishedRates> published;

  /// Throws Error when a rate is not positive and finite, or a latency negative.
  void validate() const;
};

/// The share of one of `ranks` equal ranks on the node. GPUs are dealt evenly: throws Error when
/// they are not a multiple of the ranks.
Rates rates_of(const Machine& machine, Index ranks);

}  // namespace dos::perfmodels

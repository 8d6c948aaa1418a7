// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

/// Which cores, memory and GPUs of its node a rank takes: pure decisions. node_topology.hpp reads
/// the machine and carries them out.
namespace dos::platform {

struct Core {
  Index number = 0;  ///< the operating system's, of its first hardware thread
  Index numa = 0;    ///< the operating system's number of its NUMA node
};

struct Gpu {
  std::string bus;  ///< "0000:17:00.0"
  Index numa = -1;  ///< -1: unknown
};

/// What a job may use of a machine.
struct Node {
  std::vector<Core> cores;
  std::vector<Gpu> gpus;

  [[nodiscard]] Index numa_of_gpu(const std::string& bus) const;
};

/// What the launcher lets a rank use: the cores that it is bound to, the GPUs that it sees.
struct RankResources {
  std::vector<Index> cores;
  std::vector<std::string> gpus;

  bool operator==(const RankResources&) const = default;
};

enum class Origin : std::uint8_t {
  kWhole,     ///< alone on the node: everything
  kLauncher,  ///< as Slurm or Hydra bound it
  kDivided,   ///< a part of what all ranks of the node were given together
};

struct Binding {
  Origin origin = Origin::kWhole;
  std::vector<Index> cores;
  std::vector<Index> numa;        ///< of the cores, in order, once each
  std::vector<std::string> gpus;  ///< nearest first
  Index gpu_sharers = 1;          ///< ranks that use the one of its GPUs that most use
  /// The last core is kept for the thread that communicates; it takes turns with the workers else.
  bool has_progress_core = false;
  std::vector<Index> memory;  ///< NUMA nodes of its GPUs; empty: near whoever touches it first
  std::vector<std::string> warnings;

  /// Cores for CPU workers, at least one: not those of the drivers of its GPUs, nor the last.
  [[nodiscard]] Index workers() const;
};

/// Cores that a rank must have beside its GPUs' for one to be kept free: it costs a quarter at
/// most.
inline constexpr Index kCoresForProgress = 4;

/// The binding of rank `me` of a node whose ranks have `ranks`. Ranks that were given the same
/// cores divide them: in order, near each other, as equal as can be. GPUs that all ranks see are
/// divided too, nearest first. Every rank comes to the same result. `communicates`: there are other
/// ranks, here or elsewhere. Pre: `me` is one of the ranks, which have a core each.
Binding bind_rank(const Node& node, std::span<const RankResources> ranks, Index me,
                  bool communicates);

/// What each of `sharers` ranks may take of a device's memory, of which `wanted` (0: all) was asked
/// for. A tenth stays for what the ranks' drivers take, as it does in StarPU for one rank.
Index memory_share(Index device_bytes, Index sharers, Index wanted);

/// Cores of the rank that none of its workers is bound to: where its other threads are in nobody's
/// way. Empty when all are taken.
std::vector<Index> spare_cores(const Binding& binding, const std::vector<Index>& worker_cores);

/// "0-3,8", or "none".
std::string ranges(const std::vector<Index>& numbers);

/// "cores 0-23 (22 for workers, 1 for GPUs, 1 for communication), NUMA node 0, GPU 0000:17:00.0
/// (NUMA node 0), divided among the node's ranks"
std::string describe(const Binding& binding, const Node& node);

}  // namespace dos::platform

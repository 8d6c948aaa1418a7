// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sched/plan.hpp"

namespace dos::sched {

/// What occupies a resource for some time.
enum class Work : std::uint8_t {
  kCpuUpdate,
  kDowncast,
  kGpuUpdate,
  kStateIn,
  kStateOut,
  kWeightIn,
  kGradientOut,
  kGradientIn,
  kParameterOut,
};

/// "cpu update", "downcast", ...
const char* name_of(Work work);

/// One thing that happened in a replay.
struct Activity {
  Work work;
  Index subgroup;
  Index gpu;     ///< of kernels and copies, else -1
  Index worker;  ///< of CPU updates, else -1
  units::Seconds start;
  units::Seconds end;
};

/// GPU memory held by states from `time` on.
struct MemoryPoint {
  units::Seconds time;
  units::Bytes bytes;
};

struct Replay {
  units::Seconds makespan;    ///< everything done, states back home
  units::Seconds update_end;  ///< what a timer around the update sees (Execution::joins_copies)
  /// When the working parameters of the smallest depth are where forward needs them.
  units::Seconds first_ready;
  units::Seconds cpu_busy;  ///< sum over workers
  std::vector<units::Seconds> kernel_busy;
  std::vector<units::Seconds> h2d_busy;
  std::vector<units::Seconds> d2h_busy;
  std::vector<units::Bytes> h2d_bytes;
  std::vector<units::Bytes> d2h_bytes;
  std::vector<units::Bytes> memory_peak;  ///< by GPU
  // Only when asked for:
  std::vector<Activity> activities;              ///< by end
  std::vector<std::vector<MemoryPoint>> memory;  ///< by GPU
};

/// Plays a plan as a discrete-event simulation: CPU workers take their subgroups in order, each GPU
/// has one kernel and one copy a direction at a time, all share DRAM (contention.hpp), and copies
/// and tasks begin with their latency. Deterministic. docs/scheduler.md says the rules. Throws
/// Error when a streamed subgroup is larger than the memory of its window; ContractViolation when
/// the plan does not fit the problem.
Replay replay(const Problem& problem, const Plan& plan, bool record = false);

}  // namespace dos::sched

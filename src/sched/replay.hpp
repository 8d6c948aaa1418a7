// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sched/plan.hpp"

namespace dos::sched {

/// What occupies a resource for some time.
enum class Work : std::uint8_t {
  kCpuUpdate,
  kDowncast,
  kGpuUpdate,
  kStateIn,   ///< to the tier of that link, for an update or home
  kStateOut,  ///< from it
  kWeightIn,
  kGradientOut,
  kGradientIn,
  kParameterOut,
  kPass,  ///< forward or backward of a depth (step_replay.hpp)
};

/// "cpu update", "downcast", ...
const char* name_of(Work work);

/// One thing that happened in a replay.
struct Activity {
  Work work;
  Index subgroup;
  Index tier;    ///< of a kernel, or of the link of a copy, else -1
  Index worker;  ///< of CPU updates, else -1
  units::Seconds start;
  units::Seconds end;
};

/// What a link carried.
struct LinkUse {
  units::Seconds in_busy;  ///< to its tier
  units::Seconds out_busy;
  units::Bytes in_bytes;
  units::Bytes out_bytes;
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
  std::vector<LinkUse> links;             ///< by tier
  std::vector<units::Bytes> memory_peak;  ///< of states, by GPU
  units::Bytes host_peak;                 ///< of states in host memory, at home or on their way
  // Only when asked for:
  std::vector<Activity> activities;              ///< by end
  std::vector<std::vector<MemoryPoint>> memory;  ///< by GPU
};

/// The tracks of a timeline: "cpu", "downcast", "gpu 0 update", "gpu 0 h2d", "nvme read", ...
std::string track_of(const Problem& problem, const Activity& activity);

/// Plays a plan as a discrete-event simulation: CPU workers take their subgroups in order, each GPU
/// has one kernel at a time and each link one copy a direction, all share DRAM (contention.hpp),
/// and copies and tasks begin with their latency. Deterministic. docs/scheduler.md says the rules.
/// Throws Error when a streamed subgroup is larger than the memory of its window, or states do not
/// fit where they live; ContractViolation when the plan does not fit the problem.
Replay replay(const Problem& problem, const Plan& plan, bool record = false);

/// Throws as replay() does before it begins.
void expect_plays(const Problem& problem, const Plan& plan);

/// The update_end of that; nothing, at less cost, when it is later than `limit`.
std::optional<units::Seconds> update_end_by(const Problem& problem, const Plan& plan,
                                            units::Seconds limit);

}  // namespace dos::sched

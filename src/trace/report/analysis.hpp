// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/report/advice.hpp"
#include "trace/report/intervals.hpp"
#include "trace/trace.hpp"

namespace dos::trace {

// What a trace says, as pure functions of it. Times in microseconds on the trace's clock, shares
// from 0 to 1. docs/traces.md defines every figure.

/// What a worker's time went to.
enum class Use {
  kComputing,   ///< ran a task
  kDram,        ///< ran an update or a norm longer than without others beside it
  kData,        ///< had a task whose buffers were on their way
  kDevice,      ///< had nothing ready while a device computed
  kHeldBack,    ///< had nothing, though a task for it was ready: waiting for a window, scheduling
  kCheckpoint,  ///< had nothing while an update, or the submitting thread, waited for a checkpoint
  kRanks,       ///< had nothing while a message from another rank was on its way
  kNoWork,      ///< nothing was ready
};
inline constexpr std::array kUses{Use::kComputing, Use::kDram,       Use::kData,  Use::kDevice,
                                  Use::kHeldBack,  Use::kCheckpoint, Use::kRanks, Use::kNoWork};
const char* name_of(Use use);
/// What a worker did then, for readers of a report.
const char* meaning_of(Use use);

struct WorkerUse {
  int rank = 0;
  int worker = 0;
  std::string name;
  std::string kind;
  std::array<double, kUses.size()> time{};  ///< by Use; adds up to the window
  std::map<std::string, double> phases{};   ///< of kComputing and kDram together: what it ran
  double no_work_in_update = 0;             ///< of kNoWork: while some update was running or due
  double device_in_update = 0;              ///< of kDevice: likewise

  [[nodiscard]] double of(Use use) const { return time[static_cast<std::size_t>(use)]; }
};

struct StepTimes {
  Index step = 0;
  double start = 0;  ///< of its first task
  double end = 0;    ///< of its last task
  /// From the end of the step before, or this step's start if that is later, to its end.
  double duration = 0;
};

struct LinkUse {
  int rank = 0;
  int from = 0;
  int to = 0;
  std::string name;
  double peak = 0;  ///< bytes/s as the runtime measured it; 0: unknown
  Index bytes = 0;
  Index transfers = 0;
  double busy = 0;           ///< something was on the link
  bool estimated = false;    ///< ends of transfers are estimates
  Index repeated_bytes = 0;  ///< of buffers that had gone the same way in the same step
  struct InPhase {
    double time = 0;   ///< from the first to the last task of the phase in a step
    double bytes = 0;  ///< that went over the link then
    [[nodiscard]] double bytes_per_s() const { return time > 0 ? bytes / time * 1e6 : 0; }
  };
  std::map<std::string, InPhase> phases{};
  double overlapped = 0;  ///< of `busy`: its device computed meanwhile
  double hidden = 0;      ///< of `busy`: some worker of the rank computed meanwhile

  [[nodiscard]] double bytes_per_s() const {
    return busy > 0 ? static_cast<double>(bytes) / busy * 1e6 : 0;
  }
};

struct MemoryPoint {
  double time = 0;
  std::map<std::string, Index> bytes;  ///< by category

  [[nodiscard]] Index total() const;
};

struct MemoryUse {
  int rank = 0;
  int node = 0;
  std::string name;
  std::optional<Index> capacity{};
  Index peak = 0;
  Index lowest = 0;
  std::vector<MemoryPoint> curve{};
  std::vector<std::pair<Index, Index>> after_step{};  ///< (step, total)
  struct InStep {
    Index step = 0;
    Index lowest = 0;
    Index peak = 0;
  };
  std::vector<InStep> in_steps{};  ///< from the end of the step before to the end of each
};

/// One direction of a disk.
struct DiskUse {
  int rank = 0;
  std::string disk{};       ///< where its file system is mounted
  std::string operation{};  ///< read or write
  Index bytes = 0;
  Index transfers = 0;
  double busy = 0;      ///< a transfer was under way
  double hidden = 0;    ///< of `busy`: some worker of the rank computed meanwhile
  double flushing = 0;  ///< of writes: the device was told to keep them

  [[nodiscard]] double bytes_per_s() const {
    return busy > 0 ? static_cast<double>(bytes) / busy * 1e6 : 0;
  }
};

/// What backward had again of what forward does not leave, a step of a rank.
struct ActivationCost {
  std::string name;  ///< "products", or "norms and activation functions"
  /// "host", "disk": moved there and back, from a device to disks through host memory; "recompute"
  std::string where;
  double bytes = 0;    ///< both ways, there alone; 0: nothing is moved
  double time = 0;     ///< something was under way; of what is computed again, of the mean worker
  double exposed = 0;  ///< of it: the mean worker that runs the model did not compute beside it

  [[nodiscard]] double hidden() const { return time - exposed; }
};

/// A rank's part of a checkpoint.
struct CheckpointUse {
  int rank = 0;
  Index step = 0;
  Interval time;           ///< from the first buffer that was held to the end of the last flush
  Index bytes = 0;         ///< of buffers, written
  Index copied_bytes = 0;  ///< of them, to other memory first
  double held = 0;         ///< the longest of a buffer
  double waited = 0;       ///< the longest that an update waited for nothing else

  [[nodiscard]] double bytes_per_s() const {
    const double taken = time.end - time.start;
    return taken > 0 ? static_cast<double>(bytes) / taken * 1e6 : 0;
  }
};

/// All checkpoints of a rank.
struct CheckpointSummary {
  int rank = 0;
  Index checkpoints = 0;
  // The median of all, each for itself:
  Index bytes = 0;
  double time = 0;
  double bytes_per_s = 0;
  double copied_share = 0;  ///< of the bytes of all
  double held = 0;          ///< the longest
  double waited = 0;        ///< the longest
  Index waited_step = 0;    ///< the checkpoint's that was waited for longest
};
std::vector<CheckpointSummary> summarise(const std::vector<CheckpointUse>& checkpoints);

/// Parameters updated in a step by CPU workers and by devices.
struct PlacementUse {
  Index step = 0;
  Index params = 0;
  Index planned_device = 0;
  Index executed_device = 0;
  Index moved = 0;  ///< updates that ran on another memory node than the scheduler sent them to
};

/// One subgroup in the last step.
struct SubgroupPlace {
  std::string subgroup;
  Index params = 0;
  int planned_node = 0;
  int executed_node = -1;  ///< -1: unknown
  bool resident = false;
};

/// Time that did not go into computing, and what would help.
struct Loss {
  Cause cause = Cause::kCpuNoWork;
  std::optional<Use> use{};  ///< of workers' time; a link's has none
  std::string what;
  std::string remedy;
  double worker_us = 0;  ///< of workers, a step
  double share = 0;      ///< of all workers' time
};

struct Analysis {
  Interval window;  ///< first start to last end of the tasks of steps
  std::vector<StepTimes> steps;
  std::map<std::string, double> phase_busy;  ///< a task of the phase ran, in the window
  std::vector<WorkerUse> workers;
  std::vector<LinkUse> links;  ///< those that moved something, or lead to a device
  std::vector<MemoryUse> memory;
  std::vector<DiskUse> disks;               ///< those that something went to or came from
  std::vector<ActivationCost> activations;  ///< what costs most first
  std::vector<CheckpointUse> checkpoints;
  std::vector<MemoryUse> held;  ///< of each rank: what nobody could change
  std::vector<PlacementUse> placements;
  std::vector<SubgroupPlace> last_placement;
  std::vector<Loss> losses;  ///< at most five, the largest first
  double task_us = 0;        ///< sum over the tasks in the window
  double median_step = 0;
  Index typical_step = 0;  ///< the one whose duration is the median

  [[nodiscard]] double idle_share(Use use) const;
};

/// Throws Error when the trace has no task of a step.
Analysis analyse(const Trace& trace);

/// StarPU's name without the description of the device in parentheses.
std::string short_name(const rt::MachineView::Worker& worker);

// The parts of it.
std::vector<StepTimes> step_times(const Trace& trace);
std::vector<WorkerUse> worker_use(const Trace& trace, const Interval& window);
std::vector<LinkUse> link_use(const Trace& trace, const Interval& window);
std::vector<MemoryUse> memory_use(const Trace& trace, const std::vector<StepTimes>& steps);
std::vector<DiskUse> disk_use(const Trace& trace);
/// By class and where it went, without what was not done.
std::vector<ActivationCost> activation_costs(const Trace& trace, const Interval& window,
                                             Index steps);
std::vector<CheckpointUse> checkpoint_use(const Trace& trace);
std::vector<MemoryUse> held_use(const Trace& trace);
std::vector<PlacementUse> placement_use(const Trace& trace);
std::vector<SubgroupPlace> last_placement(const Trace& trace);
std::vector<Loss> find_losses(const Analysis& analysis, const Facts& facts);
/// When a task of the phase ran, within the window.
Intervals phase_intervals(const Trace& trace, const std::string& phase, const Interval& window);
/// From the first to the last task of the phase in each step.
Intervals phase_spans(const Trace& trace, const std::string& phase);

}  // namespace dos::trace

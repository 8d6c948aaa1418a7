// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "base/types.hpp"
#include "rt/codelet.hpp"
#include "rt/condition.hpp"
#include "rt/handle.hpp"
#include "rt/profile.hpp"
#include "rt/session.hpp"

namespace dos::rt {

/// Values of TaskOptions::worker that name no worker.
inline constexpr int kAnyWorker = -1;
inline constexpr int kAnyCpuWorker = -2;
/// A GPU's, if there is one and it can run the task; else any.
inline constexpr int kAnyModelWorker = -3;

/// Of no lane.
inline constexpr Index kNoLane = -1;

/// What a task costs and how urgent it is.
struct TaskOptions {
  int priority = 0;         ///< larger runs earlier; clamped to what the scheduler supports
  const char* label = "";   ///< what the task works on; must outlive the task
  int worker = kAnyWorker;  ///< who may run it; for measurements, schedulers know better
  int keeper = kAnyWorker;  ///< the only worker to which a scheduler may give it: it has the data
  Condition condition{};    ///< a task that is left out has no record
};

/// The size of a task's work: what its duration depends on, never hyper-parameters or step numbers.
struct Work {
  double flops = 0;
  std::array<Index, 4> sizes{};  ///< hashed into the performance model's footprint
};

/// A task about to be submitted.
struct TaskCall {
  const Codelet& codelet;
  std::span<const Handle* const> buffers;
  std::span<const std::byte> arguments;
  std::span<const std::byte> payload;
  Work work;
  TaskOptions options;
};

/// How many tasks may be pending before submit() waits for some to end. Far more than the workers
/// look at, whatever the number of micro-batches.
inline constexpr Index kMostPendingTasks = 20'000;
/// What such a task takes of memory (task_bytes()) on the average before submit() waits earlier:
/// tasks of many buffers, or that are given much.
inline constexpr Index kMostBytesATask = 4096;

/// What looks at tasks one by one, each on the submitting thread.
struct TaskObserver {
  std::function<void(const TaskCall&)> before;  ///< its submission
  std::function<void(const TaskCall&)> after;   ///< its submission
};

/// As StarPU has a set of workers: bits in words.
using WorkerBits = std::vector<std::uint32_t>;

/// The GPUs of a session that lanes are dealt to, if there are several.
struct LaneDevices {
  std::vector<int> workers{};
  bool are_cuda = false;  ///< else OpenCL devices
};

/// Submits tasks in program order, tagged with the current phase and step; StarPU derives the task
/// graph from the buffers. One thread submits.
///
/// With CUDA workers, tasks of forward, backward and validation that they can run are theirs alone:
/// weights and activations are there, a CPU worker takes a thousand times as long, and where a task
/// ran would decide how its results are rounded.
class Submitter {
 public:
  explicit Submitter(Session& session, Index most_pending = kMostPendingTasks);
  Submitter(const Submitter&) = delete;
  Submitter& operator=(const Submitter&) = delete;
  /// Waits for the session's tasks: they report to the profile.
  ~Submitter();

  void set_tag(const TaskTag& tag);
  /// Step and micro-batch stay.
  void set_phase(Phase phase);
  [[nodiscard]] const TaskTag& tag() const { return tag_; }
  [[nodiscard]] Session& session() const { return session_; }
  [[nodiscard]] Profile& profile() { return profile_; }

  /// Whether tasks of all phases that a CUDA device can run are kept from CPU workers; for tests
  /// and measurements, schedulers know better.
  void keep_from_cpus(bool keep) { keep_from_cpus_ = keep; }

  /// Where there are several GPUs, tasks that they can run are from now on for GPU lane % GPUs:
  /// what belongs together stays in one memory, and lanes run side by side. kNoLane: for any
  /// worker.
  void set_lane(Index lane) { lane_ = lane; }

  /// Blocks while too many tasks are pending, or they take too much memory: they must be able to
  /// run, so the caller holds no HostAccess. Throws Error when no worker can run the codelet, or
  /// when StarPU's performance model of it was written by another version, which StarPU would not
  /// survive.
  void submit(const TaskCall& call);

  template <class Args>
  void submit(const Codelet& codelet, std::span<const Handle* const> buffers, const Args& args,
              const Work& work, const TaskOptions& options,
              std::span<const std::byte> payload = {}) {
    static_assert(std::is_trivially_copyable_v<Args>);
    submit(TaskCall{codelet, buffers, std::as_bytes(std::span(&args, 1)), payload, work, options});
  }

  /// Handle::release(), where devices have memory that others need.
  void release(const Handle& handle);
  /// Whether they do; they do until it is said.
  void set_releases(bool on) { releases_ = on; }

  /// Used to look at every buffer as it is about to be used or appears. Empty functions: off.
  void set_observer(TaskObserver observer) { observer_ = std::move(observer); }

 private:
  void wait_for_room(Index bytes);
  [[nodiscard]] bool is_for_gpus(const TaskCall& call) const;

  Session& session_;
  Index most_pending_;
  std::atomic<Index> pending_bytes_ = 0;
  Profile profile_;
  TaskTag tag_;
  TaskObserver observer_;
  bool keep_from_cpus_ = false;
  bool releases_ = true;
  Index lane_ = kNoLane;
  LaneDevices lane_devices_;
  /// By worker, the set of it alone: StarPU only reads them; they live until its tasks have ended.
  std::vector<WorkerBits> alone_;
  std::unordered_set<const Codelet*> submitted_;
  Index submissions_ = 0;
};

}  // namespace dos::rt

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "sched_starpu/ready_tasks.hpp"
#include "sched_starpu/settings.hpp"
#include "sched_starpu/update_board.hpp"

namespace dos::sched_starpu {

/// One scheduling context of StarPU: executes the plan of an UpdateBoard for the update tasks, and
/// gives every other task to the workers that end it first.
///
/// Workers are grouped by memory node: all CPU workers take from one queue, each GPU has its own.
/// An update for a GPU waits until the window has room for its states, is prefetched, and then is
/// ready; when it has run, its states go back to host memory while the next is computed. Beside
/// GPUs, gradients of the next CPU updates are fetched the same way. A worker without work takes
/// the last update that waits elsewhere when it would end it first.
///
/// Locks: one mutex for queues, board and counters. A worker that takes a task holds its scheduling
/// mutex of StarPU around it (pop); all others take it alone. Under it no function of StarPU is
/// called that waits for a worker. Thread-safe. StarPU runs some tasks without push(), and some
/// without after_execution(): the former are none of ours, the latter are never updates.
class Scheduler {
 public:
  Scheduler(unsigned context, const sched::Policy& policy, Settings settings);

  void add_workers(std::span<const int> workers);
  void push(starpu_task* task);
  /// A task for the calling worker, or null. Does not allocate.
  starpu_task* pop();
  void before_execution(starpu_task* task);
  void after_execution(starpu_task* task);

  /// What is known of the updates so far. Call while no task runs: StarPU's counters of bytes are
  /// not protected.
  [[nodiscard]] Report report();

 private:
  /// The workers of one memory node.
  struct Group {
    unsigned node = 0;
    Device device{};
    std::vector<int> workers{};
    ReadyTasks ready{};    ///< may run now
    ReadyTasks updates{};  ///< updates that may run now; of a GPU: that wait for room in its window
    Index in_window = 0;   ///< streamed updates that are prefetched or run
    Index residents = 0;   ///< resident ones
    double queued_seconds = 0;  ///< of what waits, and of the updates that run
    double last_end_us = 0;
    Traffic moved{};  ///< as counted by the reports before
  };

  Group& group(Index index) { return groups_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] bool is_update(starpu_task* task) const;
  [[nodiscard]] Surroundings surroundings() const;
  void place_update(TaskNote& note);
  void place_other(TaskNote& note);
  void choose_group(TaskNote& note) const;
  /// When each group will have done what waits for it, in seconds from now.
  [[nodiscard]] std::vector<double> queue_ends() const;
  [[nodiscard]] Index group_of(const Device& device, starpu_task* task) const;
  /// The first worker of the group that may run the task, -1 if none may.
  [[nodiscard]] static int runner_of(const Group& group, starpu_task* task,
                                     unsigned* implementation = nullptr);
  /// Lets updates into the window of a GPU and prefetches them. Without the lock.
  void admit(Index group);
  /// Wakes one worker of the group. Without the lock.
  void wake(const Group& group, bool all = false) const;
  [[nodiscard]] Index window_of(const Group& gpu) const;
  [[nodiscard]] bool has_room(const Group& gpu, const TaskNote& note) const;
  static void occupy(Group& gpu, TaskNote& note, bool resident);
  static void release(Group& gpu, TaskNote& note);
  TaskNote* take(Group& group, unsigned worker);
  TaskNote* take_elsewhere(Index group, unsigned worker);
  [[nodiscard]] bool would_end_earlier(const Group& idle, const Group& owner) const;
  void write_back(const TaskNote& note) const;
  void forget(TaskNote& note);
  void describe_device(Group& group, DeviceReport& device);

  const unsigned context_;
  const sched::Policy& policy_;
  const Settings settings_;
  mutable std::mutex mutex_;
  std::vector<Group> groups_;  ///< the CPU first
  std::array<Index, STARPU_NMAXWORKERS> group_of_worker_{};
  std::array<WorkerClock, STARPU_NMAXWORKERS> clocks_{};
  std::unique_ptr<UpdateBoard> board_;
  std::uint64_t arrivals_ = 0;
  std::atomic<Index> waiting_{0};  ///< tasks in any queue
};

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <starpu.h>

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sched_starpu/dispatch.hpp"
#include "sched_starpu/held_memory.hpp"
#include "sched_starpu/look_ahead.hpp"
#include "sched_starpu/returns.hpp"
#include "sched_starpu/scheduler_settings.hpp"
#include "sched_starpu/spinning_mutex.hpp"
#include "sched_starpu/update_task.hpp"
#include "sched_starpu/worker_clock.hpp"

namespace dos::sched_starpu {

/// One scheduling context of StarPU: tells board and dispatch of tasks and workers, does what they
/// decide, and gives every task that is no update to the workers that end it first.
/// docs/scheduler.md has a picture.
///
/// Locks: one mutex for dispatch, board and counters. A worker that takes a task holds its
/// scheduling mutex of StarPU around it (pop); all others take it alone. Under it no function of
/// StarPU is called that waits for a worker, and nobody plans. Thread-safe.
///
/// Plans take many milliseconds. A CPU worker without work makes that of the next step as soon as
/// all is known for it (UpdateBoard::plan_ahead()), beside forward or backward.
///
/// StarPU runs some tasks without push(): they are none of ours. It runs some without
/// after_execution(): they are never updates.
class Scheduler {
 public:
  Scheduler(unsigned context, const sched::Policy& policy, SchedulerSettings settings);

  void add_workers(std::span<const int> workers);
  /// States live elsewhere than in host memory, some of them: plans have none stay on a device, and
  /// those by which updates take too long are not tried. Pre: no update came yet.
  void expect_states_elsewhere();
  void push(starpu_task* task);
  /// A task for the calling worker, or null. Does not allocate.
  starpu_task* pop();
  void before_execution(starpu_task* task);
  void after_execution(starpu_task* task);

  /// What is known of the updates so far. Call while no task runs: StarPU's counters of bytes are
  /// not protected.
  [[nodiscard]] UpdatesReport report();
  /// The report of one step, at any time; nothing when it is too long ago, or yet to come.
  [[nodiscard]] std::optional<StepReport> step_report(Index step);
  /// UpdatesReport::obstacle, at any time.
  [[nodiscard]] std::string obstacle();
  /// Whether the plan that holds has model, gradients and updates take a GPU's memory from each
  /// other, at any time.
  [[nodiscard]] bool is_memory_short() const { return step_of_short_memory_ > 0; }

 private:
  /// The workers of one memory node; its tasks are in the Dispatch, under the same number.
  struct Node {
    unsigned id = 0;
    Device device{};
    std::vector<int> workers{};
    Traffic moved{};  ///< as counted by the reports before
    Returns returns{};
    std::unique_ptr<LookAhead> look_ahead{};  ///< of a GPU
  };
  struct WorkerPlace {
    Index group = 0;
    Index worker = 0;  ///< of the group
  };

  Node& node(Index group) { return nodes_[static_cast<std::size_t>(group)]; }
  /// Of the board, which reads memory under the lock.
  [[nodiscard]] Surroundings surroundings();
  void place_update(TaskNote& note);
  /// Keeps what streamed updates may allocate within the plan's room.
  void hold_memory(const UpdateTask& update, starpu_task* task, const Place& place);
  /// Lets an update have what it lacks of a GPU's memory, though no plan has room for it there.
  void give_memory(Index group, starpu_task* update);
  /// Lets go of memory that is held when no task has begun or ended for long: one may wait for it.
  void give_up_stalled_memory();
  void place_other(TaskNote& note);
  /// The program may have unregistered what it had before. Under the lock.
  void forget_buffers(Index group);
  /// Forward is over when what updates write of the model has been read; where memory is short it
  /// is looked ahead for, too.
  void add_weights(starpu_task* update, Index subgroup);
  [[nodiscard]] double expected_seconds(starpu_task* task, int worker,
                                        unsigned implementation) const;
  /// What StarPU's models expect of the task, in seconds by group; 0: they know nothing. Empty once
  /// the board needs them no more.
  [[nodiscard]] std::vector<double> model_times(starpu_task* task) const;
  /// Starts to copy the gradients to host memory that the task reads and a CPU worker will.
  /// Returns whether it reads one.
  bool flush_gradients(starpu_task* task);
  /// Tells the board what models expect of the update, and asks it for a place.
  PlacedUpdate ask_board(const UpdateTask& update, starpu_task* task);
  /// Sets the note's group to the CPU's, and returns true, where the CPU hides the update behind
  /// backward.
  bool goes_to_cpu(TaskNote& note) const;
  /// Sets the note's group to the one that ends the task first. `planned`: of an update, by plan.
  void choose_group(TaskNote& note, Index planned = -1) const;
  [[nodiscard]] Index group_of(const Device& device, starpu_task* task) const;
  /// The GPU that keeps the states of an update, as no other worker may run it
  /// (starpu_task::workerids); -1: none.
  [[nodiscard]] Index keeper_of(starpu_task* task) const;
  static bool may_run(int worker, starpu_task* task, unsigned* implementation = nullptr);
  /// The first worker of the group that may run the task, -1 if none may.
  [[nodiscard]] static int runner_of(const Node& node, starpu_task* task,
                                     unsigned* implementation = nullptr);
  /// Lets updates into the window of a GPU and prefetches them. Without the lock.
  void admit(Index group);
  /// Tells the dispatch which states have come home, if an update waits for that. Under the lock.
  void count_returns(Index group, double now);
  /// The calling worker, which has nothing else to do, makes the plan of the next step if that is
  /// due. Without the lock.
  void plan_ahead(std::size_t worker);
  /// Whether a CPU worker that spins need not take the lock: its queues are empty, and another has
  /// just seen that there is nobody to help.
  [[nodiscard]] bool may_skip_look();
  /// Wakes one worker of the group that found nothing to do, or all. Without the lock.
  void wake(Index group, bool all = false);
  void describe_device(Node& node, DeviceReport& device);

  const unsigned context_;
  const sched::Policy& policy_;
  SchedulerSettings settings_;
  const bool adapts_;  ///< updates may run elsewhere than planned
  mutable SpinningMutex mutex_;
  std::vector<Node> nodes_;             ///< by group: the CPU first
  std::vector<unsigned> gpu_memories_;  ///< by GPU: its memory node
  std::array<WorkerPlace, STARPU_NMAXWORKERS> place_of_worker_{};
  Dispatch dispatch_;
  std::array<WorkerClock, STARPU_NMAXWORKERS> clocks_{};
  std::unique_ptr<UpdateBoard> board_;
  HeldMemory held_;
  std::atomic<Index> held_step_{0};    ///< for which memory is, or was, held
  std::atomic<double> last_moved_{0};  ///< seconds: when a task began or ended
  UpdateBuffers buffers_;              ///< of all updates, until memory is read
  std::uint64_t arrivals_ = 0;
  std::atomic<Index> step_of_short_memory_{0};  ///< the updates' step; 0: no memory is short
  std::atomic<Index> waiting_{0};               ///< tasks in any queue
  std::atomic<bool> lacks_rates_{true};
  std::atomic<bool> may_plan_ahead_{false};
  /// Of a worker: found nothing when it asked last, and nobody has woken it since. Two tasks that
  /// come one after the other wake two workers. Each in a cache line of its own: workers that spin
  /// look at theirs all the time.
  struct alignas(64) Idle {
    std::atomic<bool> is{false};
  };
  std::array<Idle, STARPU_NMAXWORKERS> idle_{};
  alignas(64) std::atomic<bool> cpu_has_tasks_{false};  ///< in queues of its own
  std::atomic<double> next_look_{0};                    ///< seconds: of a CPU worker, at others'
};

}  // namespace dos::sched_starpu

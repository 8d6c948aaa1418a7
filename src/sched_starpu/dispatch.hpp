// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "sched_starpu/gpu_window.hpp"
#include "sched_starpu/load.hpp"
#include "sched_starpu/pace.hpp"
#include "sched_starpu/ready_tasks.hpp"
#include "sched_starpu/update_board.hpp"

namespace dos::sched_starpu {

/// The workers of one memory node and the tasks that wait for them.
struct Group {
  Device device{};
  ReadyTasks ready{};      ///< may run now
  ReadyTasks updates{};    ///< updates that may run now; of a GPU: whose states are to come
  ReadyTasks residents{};  ///< of a GPU: updates whose states are there
  ReadyTasks fetched{};    ///< of the CPU: updates whose gradients come ahead of their turn
  ReadyTasks admitted{};   ///< of a GPU: updates in the window, whose data come
  GpuWindow window{};
  Index ahead = 0;  ///< of the CPU: updates whose gradients are fetched, until they have run
  Pace pace{};
  Load load{};
  DueTime due{};
  double queued_seconds = 0;   ///< of what waits
  double last_update_end = 0;  ///< seconds
  ReadyTasks::Key kept{};      ///< of an update that it ends sooner than others would
  double kept_until = 0;       ///< seconds: before, nobody asks again

  /// Whether updates wait that another group may still take.
  [[nodiscard]] bool has_updates() const {
    return !updates.empty() || !residents.empty() || !fetched.empty();
  }
  /// Whether its own workers may find a task. Of the CPU.
  [[nodiscard]] bool has_tasks() const {
    return !ready.empty() || !updates.empty() || !fetched.empty();
  }
  /// Those of them that others take first. Pre: has_updates().
  [[nodiscard]] ReadyTasks& farthest() {
    return !updates.empty() ? updates : residents.empty() ? fetched : residents;
  }
};

struct AllIsHere {
  Inputs operator()(const starpu_task* /*task*/) const { return Inputs::kHere; }
};

/// Who runs which task next: queues, windows, and what a worker without work takes from others.
/// Decisions only: nothing here knows a runtime, reads a clock or locks. Groups are numbered in the
/// order in which they are added, the CPU first. `now`: seconds of one clock. `board`: where
/// updates are known. `can_run`: whether the worker, or for admit() any worker of the GPU, can run
/// a task. `inputs`: whether what it reads is where the worker is.
///
/// An update of a GPU waits until admit() lets it into the window; the caller prefetches it and
/// hands it to admitted(). From then on it stays: StarPU wants a prefetched task where it was
/// prefetched. Streamed ones and residents do not wait for each other. Beside GPUs, admit() also
/// lets gradients of the CPU's next updates come, which others may still take once there is a plan.
class Dispatch {
 public:
  /// `adapts`: workers without work may take updates that are planned elsewhere.
  /// `most_streamed`: bound of every window, 0 for none.
  Dispatch(bool adapts, Index most_streamed, const Tuning& tuning = {});

  Index add_group(const Device& device);
  /// Its number within the group.
  Index add_worker(Index group);
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }

  /// A task that is no update. The note stays the caller's, here and below.
  void push(const ReadyTasks::Key& key, TaskNote& note);
  /// An update, planned for the group that the note names.
  void push_update(const ReadyTasks::Key& key, TaskNote& note, const UpdateBoard& board,
                   double now);

  /// In how many seconds a worker of the group could begin with a task behind all that wait.
  /// Counting only what a task of high priority waits for made schedules of Cholesky 1.6 % longer.
  [[nodiscard]] double start_of(Index group, double now) const;

  /// Whether the CPU alone would run an update that takes a worker `length` seconds, all that wait
  /// there and all that are still to come in this step, before the last gradient comes, if that
  /// takes as long as in the step before. Then a GPU's memory and time gain nothing.
  [[nodiscard]] bool is_hidden_on_cpu(double length, const UpdateBoard& board, double now) const;

  /// The next update of the group that has room, to be prefetched; of a GPU that has none left, one
  /// that it would end before those who have it. Empty when there is none.
  template <class Predicate>
  ReadyTasks::Node admit(Index gpu, const UpdateBoard& board, double now, Predicate&& can_run) {
    Group& group = at(gpu);
    if (group.device.is_cpu()) return next_ahead(group, board);
    if (!group.has_updates())
      return adapts_ ? from_elsewhere(gpu, board, now, can_run) : ReadyTasks::Node{};
    ReadyTasks* queue = first_with_room(group, board, now);
    if (queue == nullptr) return {};
    ReadyTasks::Node node = queue->take_first();
    enter(group, *node.mapped(), board, now);
    return node;
  }
  void admitted(ReadyTasks::Node&& node);

  /// What a worker of `group` runs next, null when there is nothing for it: the first of the
  /// group's tasks that it can run; else, if the policy adapts, the last update that waits
  /// elsewhere whose owner is overdue and that this worker would end first. `board`: null before
  /// the first update. Does not allocate.
  template <class Predicate, class Here = AllIsHere>
  TaskNote* take(Index group, Index worker, const UpdateBoard* board, double now,
                 Predicate&& can_run, Here&& inputs = {}) {
    TaskNote* note = at(group).device.is_cpu()
                         ? take_of_cpu(at(group), can_run)
                         : take_of_gpu(at(group), worker, board, now, can_run, inputs);
    if (note == nullptr && board != nullptr && !awaits_states(at(group), worker, *board)) {
      note = take_late(at(group), *board, now, can_run);
      if (note == nullptr && adapts_)
        if (const ReadyTasks::Node node = from_elsewhere(group, *board, now, can_run))
          note = node.mapped();
    }
    if (note != nullptr) taken(*note, worker, now);
    return note;
  }

  /// A worker of the group begins with a task that is no update, or has run it.
  void begins_other(Index group, Index worker, double now) {
    at(group).pace.begin_other(worker, now);
  }
  void ended_other(Index group, Index worker, double now) { at(group).pace.end_other(worker, now); }

  /// An update has run. Returns whether its states leave a GPU: they are in so many buffers, which
  /// keep their memory until returned(). The note is the caller's to delete.
  bool ended(TaskNote& note, Index leaving, double now);
  /// So many buffers of states are home.
  void returned(Index gpu, Index buffers);

  /// Whether another group may have something to take from this one.
  [[nodiscard]] bool can_be_helped(Index group) const {
    return adapts_ && groups_[static_cast<std::size_t>(group)].has_updates();
  }

 private:
  Group& at(Index group) { return groups_[static_cast<std::size_t>(group)]; }
  [[nodiscard]] GpuWindow::Limits limits(const Group& gpu, const UpdateBoard& board, Index params,
                                         double now) const;
  /// Whether updates take far longer than the plan expects.
  [[nodiscard]] bool is_late(const Group& gpu, const UpdateBoard& board, Index params,
                             double now) const;
  /// The queue of a GPU whose first update goes next, null when there is room for none.
  [[nodiscard]] ReadyTasks* first_with_room(Group& gpu, const UpdateBoard& board, double now) const;
  /// Whether `owner` ends `last` more than one update later than the plan says, or than the time at
  /// which its updates came allows, even if it keeps to what is expected of it from now on.
  [[nodiscard]] bool is_overdue(const Group& owner, const TaskNote& last, const UpdateBoard& board,
                                double now) const;
  /// Whether `last`, of this key, which waits for `owner`, goes to a worker of `idle`: `owner` is
  /// overdue, and `idle` would end it first, as fast as `owner` is now.
  [[nodiscard]] bool should_help(const Group& idle, Group& owner, const TaskNote& last,
                                 const ReadyTasks::Key& key, const UpdateBoard& board,
                                 double now) const;
  /// In how many seconds `owner` has run what waits for it, at `one` second an update like `last`:
  /// so many of its residents and all others.
  [[nodiscard]] static double time_left(const Group& owner, const TaskNote& last, Index residents,
                                        const UpdateBoard& board, double one, double now);
  void move(TaskNote& note, Index to, const UpdateBoard& board);
  void taken(TaskNote& note, Index worker, double now);

  template <class Predicate>
  static TaskNote* take_of_cpu(Group& cpu, Predicate&& can_run) {
    return take_first(std::array{&cpu.ready, &cpu.fetched, &cpu.updates}, can_run);
  }

  /// Beside forward a streamed update that takes little is run as soon as its states are there, so
  /// that those of the next may come. So is any beside backward. A worker does not wait with one in
  /// hand while forward or backward goes on without it.
  template <class Predicate, class Here>
  static TaskNote* take_of_gpu(Group& gpu, Index worker, const UpdateBoard* board, double now,
                               Predicate&& can_run, Here&& inputs) {
    const bool beside_backward = board != nullptr && board->are_beside_backward();
    // The task that it runs makes the next one ready, and then the worker looks again.
    const bool beside_task = board != nullptr && gpu.ready.empty() && gpu.pace.runs_other(worker);
    if (gpu.admitted.empty() || (gpu.ready.empty() && !beside_backward && !beside_task))
      return take_first(std::array{&gpu.ready, &gpu.admitted}, can_run);
    if (TaskNote* brief = gpu.admitted.take_first_note([&](const TaskNote& note) {
          return note.is_brief && (note.travels || beside_backward) && can_run(note.task) &&
                 inputs(note.task) == Inputs::kHere;
        }))
      return brief;
    if (!beside_backward && !beside_task)
      return take_first(std::array{&gpu.ready, &gpu.admitted}, can_run);
    if (TaskNote* other = gpu.ready.take_first_that(can_run)) return other;
    return gpu.admitted.take_first_note([&](const TaskNote& note) {
      // What nobody asks for comes only for a worker that has the task.
      return can_run(note.task) &&
             (note.is_redone || now >= note.latest || inputs(note.task) != Inputs::kOnTheirWay);
    });
  }

  /// Whether those in the window come while the worker runs forward: states of another update would
  /// come behind them, and forward's next task would wait for all.
  static bool awaits_states(const Group& group, Index worker, const UpdateBoard& board) {
    return !group.admitted.empty() && group.pace.runs_other(worker) && !board.are_beside_backward();
  }

  /// The first of those in the queues.
  template <std::size_t kCount, class Predicate>
  static TaskNote* take_first(std::array<ReadyTasks*, kCount> queues, Predicate&& can_run) {
    std::ranges::sort(queues, [](const ReadyTasks* a, const ReadyTasks* b) {
      return !a->empty() && (b->empty() || a->first_key() < b->first_key());
    });
    for (ReadyTasks* queue : queues)
      if (TaskNote* note = queue->take_first_that(can_run)) return note;
    return nullptr;
  }

  /// An update that nobody has prefetched, as room came while no task began or ended.
  template <class Predicate>
  TaskNote* take_late(Group& gpu, const UpdateBoard& board, double now, Predicate&& can_run) {
    if (gpu.device.is_cpu()) return nullptr;
    ReadyTasks* queue = first_with_room(gpu, board, now);
    if (queue == nullptr || !can_run(queue->first().task)) return nullptr;
    return enter(gpu, *queue->take_first().mapped(), board, now);
  }

  /// The last update of another group, moved to this one, and into its window if it is a GPU's.
  template <class Predicate>
  ReadyTasks::Node from_elsewhere(Index index, const UpdateBoard& board, double now,
                                  Predicate&& can_run) {
    Group& idle = at(index);
    // Until then work of its own is to come, or there is nothing to depart from.
    if (!board.subgroups().all_arrived() || !board.plans().plan()) return {};
    for (Group& owner : groups_) {
      if (&owner == &idle || !owner.has_updates()) continue;
      ReadyTasks& queue = owner.farthest();
      const TaskNote& last = queue.last();
      if (!idle.device.is_cpu()) {
        const GpuWindow::Limits limits = this->limits(idle, board, last.params, now);
        // For a larger one the runtime would make room, by what the GPU needs itself.
        if (last.params > limits.largest || !idle.window.has_room(Stay::kStreams, limits)) continue;
      }
      if (!can_run(last.task) || !should_help(idle, owner, last, queue.last_key(), board, now))
        continue;
      ReadyTasks::Node node = queue.take_last();
      move(*node.mapped(), index, board);
      if (!idle.device.is_cpu()) enter(idle, *node.mapped(), board, now);
      return node;
    }
    return {};
  }

  /// Whether the kernel takes little beside what moves for the update.
  [[nodiscard]] bool is_brief(const Device& gpu, Index params, const UpdateBoard& board) const;
  TaskNote* enter(Group& gpu, TaskNote& note, const UpdateBoard& board, double now) const;
  ReadyTasks::Node next_ahead(Group& cpu, const UpdateBoard& board);

  const bool adapts_;
  const Index most_streamed_;
  const Tuning tuning_;
  std::vector<Group> groups_;
  Index step_ = 0;         ///< of the board, whose updates come
  double step_begin_ = 0;  ///< seconds: when the first of them came
  double last_came_ = 0;   ///< seconds: when the last so far came, but for those made again
  double coming_ = 0;      ///< seconds from first to last in the step before
};

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "sched_starpu/worker_place.hpp"

struct starpu_task;

namespace dos::sched_starpu {

/// Where what a task reads is, of the memory where it is to run.
enum class Inputs { kHere, kOnTheirWay, kNotAskedFor };

/// What the scheduler knows of a task: of an update until it has run, of another until a worker
/// takes it.
struct TaskNote {
  starpu_task* task = nullptr;
  double seconds = 0;        ///< expected, on the group it waits for; 0: unknown
  Index group = 0;           ///< whose queue it is in, or whose worker runs it
  Index subgroup = -1;       ///< of an update
  Index params = 0;          ///< of an update
  bool is_resident = false;  ///< an update whose states stay on the GPU
  bool travels = false;      ///< an update whose states come to the GPU first
  bool in_window = false;    ///< an update that a GPU prefetches or runs; of the CPU, its gradient
  bool is_redone = false;    ///< an update (UpdateTask)
  bool is_brief = false;     ///< an update whose kernel takes little beside what moves for it
  double latest = 0;         ///< seconds: of one in the window, when its states count as there
  std::optional<MoveReason> moved{};  ///< an update that is not where it was planned
  Index worker = 0;                   ///< of the group, once it runs
  double taken = 0;                   ///< seconds: when the worker took it
  bool had_inputs = false;            ///< of an update on a GPU: its data were there then
  double start = 0;                   ///< seconds, data at hand

  /// Of an update on a GPU.
  [[nodiscard]] Stay stay() const {
    return !travels ? Stay::kResident : is_resident ? Stay::kArrives : Stay::kStreams;
  }
};

/// Ready tasks by priority, then by arrival. Tasks move from one to another without allocation, so
/// that a worker that takes one never allocates.
class ReadyTasks {
 public:
  /// The place of a task: the smallest goes first.
  struct Key {
    int priority;
    std::uint64_t arrival;
    bool operator==(const Key& other) const = default;
    bool operator<(const Key& other) const {
      return priority != other.priority ? priority > other.priority : arrival < other.arrival;
    }
  };
  using Map = std::map<Key, TaskNote*>;
  using Node = Map::node_type;

  void add(const Key& key, TaskNote* note) {
    params_ += note->params;
    tasks_.emplace(key, note);
  }
  void add(Node&& node) {
    params_ += node.mapped()->params;
    tasks_.insert(std::move(node));
  }

  [[nodiscard]] bool empty() const { return tasks_.empty(); }
  [[nodiscard]] Index size() const { return static_cast<Index>(tasks_.size()); }
  /// Of all updates.
  [[nodiscard]] Index params() const { return params_; }
  /// Pre: not empty.
  [[nodiscard]] const Key& first_key() const { return tasks_.begin()->first; }
  [[nodiscard]] const Key& last_key() const { return std::prev(tasks_.end())->first; }
  /// How many go before a task with this key; takes time for each of them.
  [[nodiscard]] Index before(const Key& key) const {
    return std::distance(tasks_.begin(), tasks_.lower_bound(key));
  }
  [[nodiscard]] const TaskNote& last() const { return *std::prev(tasks_.end())->second; }
  [[nodiscard]] const TaskNote& first() const { return *tasks_.begin()->second; }
  Node take_first() { return take(tasks_.begin()); }
  /// The first that `can_run` accepts, null when there is none.
  template <class Predicate>
  TaskNote* take_first_that(Predicate&& can_run) {
    return take_first_note([&](const TaskNote& note) { return can_run(note.task); });
  }
  /// The same by what is known of it.
  template <class Predicate>
  TaskNote* take_first_note(Predicate&& accepts) {
    for (auto each = tasks_.begin(); each != tasks_.end(); ++each)
      if (accepts(*each->second)) return take(each).mapped();
    return nullptr;
  }
  Node take_last() { return take(std::prev(tasks_.end())); }

 private:
  Node take(Map::iterator which) {
    params_ -= which->second->params;
    return tasks_.extract(which);
  }

  Map tasks_;
  Index params_ = 0;
};

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "sched_starpu/dispatch.hpp"

namespace dos::sched_starpu {

/// A node in seconds a subgroup.
struct SimulatedNode {
  Index cpu_workers = 4;
  Index gpus = 1;
  double cpu_update = 0.1;
  double kernel = 0.005;
  double copy = 0.02;    ///< one way
  double memory = 1e12;  ///< bytes for states of a GPU
};

/// What became of a step. Times are seconds from its beginning.
struct SimulatedStep {
  double end = 0;  ///< all updates have run, and what was streamed is back in host memory
  Index updates = 0;
  Index most_streamed = 0;  ///< at work at once on a GPU
  Index most_slots = 0;     ///< the same with those on their way back
  Index most_residents = 0;
};

/// A program of equal subgroups in virtual time: drives board and dispatch through the same calls
/// in the same order as the scheduler does, workers without work ask again as StarPU's do, and
/// events decide in the order of their time.
class SimulatedProgram {
 public:
  static constexpr Index kParams = 1'000'000;

  /// Seconds that an update takes instead of those of the node: by device, worker of the group, and
  /// the time since the beginning of the step.
  using Disturbance = std::function<double(Device, Index worker, double at, double seconds)>;

  SimulatedProgram(const std::string& policy, const sched::PolicyOptions& options,
                   const SimulatedNode& node, Index subgroups);

  SimulatedStep step(const Disturbance& disturbance = {});
  [[nodiscard]] const UpdateBoard& board() const { return board_; }

 private:
  struct Event {
    double time;
    Index number;  ///< among equal times the first that was scheduled
    std::function<void()> action;
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  struct Link {
    double in_free = 0;
    double out_free = 0;
  };

  void at(double time, std::function<void()> action);
  void arrive(Index subgroup);
  void admit(Index group);
  void wake(Index group);
  void ask_again(Index group);
  void run(TaskNote& note, Index worker);
  void end(TaskNote& note, double started);
  void observe();

  SimulatedNode node_;
  UpdateBoard board_;
  Dispatch dispatch_;
  std::vector<std::unique_ptr<TaskNote>> notes_;
  std::vector<std::vector<bool>> busy_;  ///< by group and worker
  std::vector<bool> asks_again_;         ///< by group: a worker is about to
  std::vector<bool> has_states_;         ///< by subgroup: prefetched in this step, or resident
  std::vector<Link> links_;              ///< by GPU
  std::priority_queue<Event> events_;
  Index scheduled_ = 0;
  double now_ = 0;
  double begin_ = 0;
  Disturbance disturbance_;
  SimulatedStep result_;
};

}  // namespace dos::sched_starpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sched/workload.hpp"
#include "sched_starpu/tuning.hpp"

namespace dos::sched_starpu {

/// One update task as the runtime shows it.
struct UpdateTask {
  /// Identity: the handle of the parameters, or what that stands for (starpu_data_set_user_data()).
  const void* subgroup = nullptr;
  const void* gradient = nullptr;  ///< likewise
  Index params = 0;
  Index room = 0;    ///< parameters for whose states a GPU allocates memory; 0: params
  int priority = 0;  ///< larger: the next forward needs it earlier
  sched::UpdateCost cost;
  Index user = -1;         ///< the only GPU that has the gradient; -1: none, or several
  Index kept_on = -1;      ///< the only GPU that may run it, and keeps its states; -1: none
  bool is_redone = false;  ///< made once more, as the one before took a wrong clip factor

  [[nodiscard]] Index allocated() const { return std::max(room, params); }
};

/// The subgroups of a program, and which of them the step has seen. A subgroup has one index for
/// ever, from 0, by its first arrival. A step begins when a subgroup is seen again: between two
/// updates of a training program lies a forward pass, which needs all of the first.
class SubgroupRegistry {
 public:
  struct Arrival {
    Index index;
    bool begins_step;
  };

  explicit SubgroupRegistry(const Tuning& tuning = {}) : tuning_(tuning) {}

  Arrival arrive(const UpdateTask& task) {
    const auto [place, is_new] = index_of_.try_emplace(task.subgroup, size());
    const Index index = place->second;
    if (is_new) {
      known_.emplace_back();
      index_of_gradient_.emplace(task.gradient, index);
    }
    Known& known = known_[static_cast<std::size_t>(index)];
    const bool begins = step_ == 0 || known.step == step_;
    if (begins) begin_step();
    known = {.task = task, .step = step_};
    params_arrived_ += task.params;
    go_ahead_ = task.cost.banks > 1 && !task.is_redone;
    unfinished_ = ++arrived_ - ran_;
    return {.index = index, .begins_step = begins};
  }
  /// A subgroup of this step comes to be updated again.
  void arrives_again() { ++again_; }
  /// An update has run.
  void ran(bool is_redone = false) { is_redone ? --again_ : ++ran_; }
  /// The index of a subgroup that has arrived in this step.
  [[nodiscard]] std::optional<Index> arrived(const void* subgroup) const {
    const auto found = index_of_.find(subgroup);
    if (found == index_of_.end() || !has_arrived(found->second)) return std::nullopt;
    return found->second;
  }

  [[nodiscard]] Index size() const { return std::ssize(known_); }
  /// As it arrived last.
  [[nodiscard]] const UpdateTask& task(Index index) const { return known(index).task; }
  [[nodiscard]] std::optional<Index> with_gradient(const void* gradient) const {
    const auto found = index_of_gradient_.find(gradient);
    return found == index_of_gradient_.end() ? std::nullopt : std::optional(found->second);
  }
  /// All indices in the order in which the next forward needs them.
  [[nodiscard]] std::vector<Index> by_priority() const {
    std::vector<Index> order(known_.size());
    std::iota(order.begin(), order.end(), Index{0});
    std::ranges::stable_sort(order,
                             [&](Index a, Index b) { return task(a).priority > task(b).priority; });
    return order;
  }

  /// The step of the updates that arrive, counted from 1; 0 before the first.
  [[nodiscard]] Index step() const { return step_; }
  /// Whether GPUs keep all of them: then nothing is left to plan.
  [[nodiscard]] bool are_all_kept() const {
    return std::ranges::all_of(known_, [](const Known& each) { return each.task.kept_on >= 0; });
  }
  /// Whether it has been seen in this step.
  [[nodiscard]] bool has_arrived(Index index) const { return known(index).step == step_; }
  /// Whether as many updates have arrived as in the step before: until then a device without work
  /// has work of its own to come.
  [[nodiscard]] bool all_arrived() const { return arrived_ >= expected_; }
  /// Parameters of updates that are still to arrive, if they are those of the step before.
  [[nodiscard]] Index params_to_come() const {
    return std::max<Index>(0, params_expected_ - params_arrived_);
  }
  /// Parameters for whose states a GPU allocates memory, of the subgroup with most.
  [[nodiscard]] Index largest() const {
    Index largest = 0;
    for (const Known& each : known_) largest = std::max(largest, each.task.allocated());
    return largest;
  }
  /// Parameters of the updates of the step before.
  [[nodiscard]] Index params_before() const { return params_expected_; }
  /// Whether the step's updates have arrived and run.
  [[nodiscard]] bool all_ran() const { return all_arrived() && ran_ >= arrived_ && again_ <= 0; }
  /// Whether updates that are made again wait or run.
  [[nodiscard]] bool runs_again() const { return again_ > 0; }
  /// Whether the last that arrived goes ahead of the norm: backward is not over.
  [[nodiscard]] bool go_ahead() const { return go_ahead_; }
  /// Whether updates of the step before ran as they came (Tuning::kept_pace).
  [[nodiscard]] bool kept_pace() const { return kept_pace_; }

 private:
  struct Known {
    UpdateTask task{};
    Index step = 0;  ///< in which it was seen last
  };
  [[nodiscard]] const Known& known(Index index) const {
    return known_[static_cast<std::size_t>(index)];
  }
  void begin_step() {
    kept_pace_ =
        static_cast<double>(unfinished_) <= (1 - tuning_.kept_pace) * static_cast<double>(arrived_);
    expected_ = std::exchange(arrived_, 0);
    params_expected_ = std::exchange(params_arrived_, 0);
    ran_ = 0;
    again_ = 0;
    ++step_;
  }

  const Tuning tuning_;
  std::unordered_map<const void*, Index> index_of_;
  std::unordered_map<const void*, Index> index_of_gradient_;
  std::vector<Known> known_;
  Index step_ = 0;
  Index arrived_ = 0;          ///< updates of this step
  Index ran_ = 0;              ///< since it began
  Index again_ = 0;            ///< that are made again, and have not run
  Index unfinished_ = 0;       ///< arrived and had not run, when the last one arrived
  Index expected_ = 0;         ///< updates of the step before
  Index params_arrived_ = 0;   ///< of this step's updates
  Index params_expected_ = 0;  ///< of the step before
  bool kept_pace_ = false;
  bool go_ahead_ = false;
};

}  // namespace dos::sched_starpu

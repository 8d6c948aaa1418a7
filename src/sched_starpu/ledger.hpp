// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "sched_starpu/step_report.hpp"
#include "sched_starpu/subgroup_registry.hpp"
#include "sched_starpu/worker_place.hpp"

namespace dos::sched_starpu {

/// What steps did: where updates were placed and ran, where their states are thereby, and what that
/// moved. A step's counts grow until the next begins; what ends late counts for the next.
class Ledger {
 public:
  Ledger(Index cpu_workers, Index gpus, const Tuning& tuning = {});

  void begin_step(Index step);
  /// The update goes to `place`; returns that, with Place::arrives.
  Place placed(Index index, const UpdateTask& task, Place place);
  /// It has run on `device`. `reason`: why not where it was placed; nothing if it cannot run there.
  /// Returns whether its time may hold what memory takes: on a GPU where it was not in the step
  /// before, or to which residents come in this step. Pre: it was placed.
  bool ran(Index index, const UpdateTask& task, Device device, std::optional<MoveReason> reason);
  /// A gradient of `bytes` has started its way to the CPU, for an update of this step or the next.
  void flushed(units::Bytes bytes, bool is_next);
  /// One CPU worker has waited for the data of an update.
  void waited(units::Seconds time);

  /// By subgroup, of the first `count`: the GPU on which its states stay, -1 elsewhere.
  [[nodiscard]] std::vector<Index> homes(Index count) const;
  /// Of this step, or one of the last that are over (Tuning::reported_steps).
  [[nodiscard]] std::optional<StepReport> step(Index step) const;
  /// The last that are over, oldest first.
  [[nodiscard]] const std::vector<StepReport>& last() const { return last_; }
  /// The sum over all steps, this one included.
  [[nodiscard]] StepReport all() const;

 private:
  struct Entry {
    Place placed{};
    bool has_moved = false;  ///< placed elsewhere in the step before
    Index home = -1;
  };
  void count_share(const UpdateTask& task, Device planned, Device device,
                   std::optional<MoveReason> reason);
  void count_traffic(Index index, const UpdateTask& task, const Place& place);

  const Tuning tuning_;
  const Index cpu_workers_;
  std::vector<Entry> entries_;       ///< by subgroup, of those that were placed
  std::vector<bool> is_moved_into_;  ///< by GPU: residents come in this step
  StepReport current_;
  units::Bytes next_flushed_{};
  std::vector<StepReport> last_;
  StepReport over_;  ///< the sum of all that are over
};

}  // namespace dos::sched_starpu

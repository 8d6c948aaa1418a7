// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/types.hpp"
#include "perfmodels/checkpoint_interval.hpp"

namespace dos::train {

using perfmodels::CheckpointCosts;

/// By how much the steps of a rank that run beside a checkpoint take longer than its others, which
/// waits alone do not tell: sums, writing and copies take processor and memory. Means that forget
/// what is long ago.
class SlowedSteps {
 public:
  /// A step has ended; the first is left out: it is slower than others.
  void see(double step_s, bool is_beside_checkpoint);
  /// The checkpoint that steps ran beside has ended.
  void checkpoint_ended();
  /// Seconds a checkpoint, all its steps together; 0 while there is nothing to compare.
  [[nodiscard]] double seconds() const;

 private:
  struct Mean {
    double sum = 0;
    double weight = 0;
    void add(double value, double kept) {
      sum = sum * kept + value;
      weight = weight * kept + 1;
    }
  };

  bool has_begun_ = false;
  Mean alone_;              ///< seconds of steps beside none
  Mean excess_;             ///< by checkpoint
  double this_excess_ = 0;  ///< of the steps beside the one that has not ended
  bool is_compared_ = false;
};

/// When a run with train.checkpoint_every=auto saves: twice, after a few steps each, as the first
/// has to make its files; then as perfmodels::choose_interval() says of the lesser figures of the
/// last two, so that one slow checkpoint does not make the next ones rare. The same on all ranks,
/// if all see the same.
class AutoInterval {
 public:
  /// Of a run that goes on after step `start`.
  AutoInterval(Index start, double mtbf_s);

  /// Whether a checkpoint of the step is due. Counts it as taken.
  [[nodiscard]] bool is_due(Index step);
  /// A checkpoint is there, and cost that. Returns what to tell of a new interval.
  std::optional<std::string> see(const CheckpointCosts& costs);
  /// A checkpoint has ended that is not there, and tells nothing: the next comes as this one did.
  void give_up() { is_measured_ = true; }

 private:
  static constexpr Index kFirstSteps = 3;
  /// Every so many checkpoints the next one comes kRest steps later: where steps beside none are
  /// rare, to see some.
  static constexpr Index kRestEvery = 16;
  static constexpr Index kRest = 2;

  double mtbf_s_;
  Index last_;  ///< step of the last checkpoint, or of the start
  Index steps_ = kFirstSteps;
  Index taken_ = 0;          ///< checkpoints
  bool is_measured_ = true;  ///< the last checkpoint has ended
  std::optional<CheckpointCosts> former_;
  Index told_ = 0;  ///< interval
};

}  // namespace dos::train

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/types.hpp"
#include "perfmodels/checkpoint_interval.hpp"

namespace dos::train {

using perfmodels::CheckpointCosts;

/// When a run with train.checkpoint_every=auto saves: a first time after the steps that are slower
/// than others, then as perfmodels::choose_interval() says of the last checkpoint. The same on all
/// ranks, if all see the same.
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

  double mtbf_s_;
  Index last_;  ///< step of the last checkpoint, or of the start
  Index steps_ = kFirstSteps;
  bool is_measured_ = true;  ///< the last checkpoint has ended
  Index told_ = 0;           ///< interval
};

}  // namespace dos::train

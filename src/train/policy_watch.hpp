// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "optim/optimizer.hpp"
#include "tensor/parameter_set.hpp"
#include "train/metrics.hpp"

namespace dos::train {

/// What the scheduler's policy says of the steps of a run. They are counted from 1, the first one
/// of this part of the run.
class PolicyWatch {
 public:
  explicit PolicyWatch(std::string scheduler) : scheduler_(std::move(scheduler)) {}

  /// Nullopt where there is no device that gradients leave.
  static std::optional<StepMetrics::Flush> flush_of(Index step);

  /// The tasks submitted so far are the last that read gradients, and what `optimizer` has of them,
  /// before backward writes them again: a GPU that is short of memory need not write them back.
  static void drop_dead(const tensor::ParameterSet& parameters, optim::Optimizer& optimizer);

  /// Says once, after the first planned step, that the policy cannot do what it was chosen for.
  void warn_of_obstacle(Index step, bool is_last);

 private:
  std::string scheduler_;
  bool has_warned_ = false;
};

}  // namespace dos::train

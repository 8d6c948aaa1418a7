// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "fit/fit.hpp"
#include "planner/planner.hpp"
#include "train/run.hpp"

namespace dos::fit {

/// The update of a run by the planner, with one plan for activations or another: what they leave of
/// a device, or of host memory before disks, is where states stay between steps.
class UpdateTimes {
 public:
  /// Nothing is known without Measured::whole, where the policy is not this project's, or where the
  /// planner cannot plan such ranks.
  UpdateTimes(const train::Run& run, const Room& room);

  /// Whether the update is known, and states may lack the memory that activations leave.
  [[nodiscard]] bool depend_on_activations() const { return request_.has_value(); }
  /// 0 where it is not, or states would have no place.
  [[nodiscard]] units::Seconds of(const shape::ActivationPlan& plan) const;
  /// What of it forward does not hide; 0 where it is not known, infinite where states would have no
  /// place.
  [[nodiscard]] units::Seconds added(const shape::ActivationPlan& plan) const;

 private:
  /// Nothing where it is not known, or states would have no place.
  [[nodiscard]] std::optional<planner::Forecast> with(const shape::ActivationPlan& plan) const;

  std::optional<planner::Request> request_;
};

}  // namespace dos::fit

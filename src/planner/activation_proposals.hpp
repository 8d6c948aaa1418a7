// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "planner/activation_choice.hpp"
#include "planner/planner.hpp"

namespace dos::planner {

/// The plans that have names: keep, selective, recompute, host and disk where the machine has such
/// places.
std::vector<shape::ActivationPlan> named_activations(const Request& request);

/// Of one device: what there is for activations of blocks at most, and what they take at least.
struct ActivationLimits {
  units::Bytes most;
  units::Bytes least;
  std::vector<units::Bytes> host;  ///< its part of host memory, by what else may be there
  units::Bytes disk;
};

/// What a step takes with a plan; nullopt: it does not fit, or leaves states no place.
using WeighPlan = std::function<std::optional<units::Seconds>(const shape::ActivationPlan&)>;

/// Weighs the plans, and, with limits, the best by forward and backward for several sizes of device
/// memory, as what activations leave of it is for states: all from least to most, then ever nearer
/// to the size with the shortest step. Each plan is weighed once; those that fit are returned.
std::vector<ActivationChoice> weighed_plans(const std::vector<shape::ActivationPlan>& plans,
                                            const std::optional<ActivationLimits>& limits,
                                            const PassModel& passes, const WeighPlan& weigh);

/// Of a device of the request, for a forecast with all activations recomputed, and `passes` that
/// takes what it leaves.
ActivationLimits activation_limits(const Request& request, const Forecast& least,
                                   const PassModel& passes);

}  // namespace dos::planner

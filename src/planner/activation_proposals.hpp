// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "planner/planner.hpp"

namespace dos::planner {

/// The plans that have names: keep, selective, recompute, host and disk where the machine has such
/// places.
std::vector<shape::ActivationPlan> named_activations(const Request& request);

/// Plans for activations that are worth a forecast: those that have names, and the best for several
/// sizes of device memory, since what activations leave is for states. `least` is the forecast with
/// all of them recomputed, and `passes` what it takes for them.
std::vector<shape::ActivationPlan> proposed_activations(const Request& request,
                                                        const Forecast& least,
                                                        const PassModel& passes);

}  // namespace dos::planner

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "perfmodels/machine.hpp"
#include "planner/plan_settings.hpp"

namespace dos::planner {

/// The tier that a folder is known to lie on: that of its name, else that of the innermost folder
/// above it (Tier::folders); null: nobody knows.
const perfmodels::Tier* tier_of(const std::vector<perfmodels::Tier>& tiers,
                                const std::string& folder);

/// Leaves the machine the disks that settings name for states (settings.disks; empty: all), each no
/// larger than they say for a node of `ranks`, and says which of them, or of its others, are for
/// activations (settings.activation_disks; empty: those of states, where they are named). A disk is
/// its tier_of(), else the next one that no other disk is. Returns whether each disk for
/// activations has a tier; where none has, the rest of the planner takes the fastest. Throws Error
/// where states have fewer.
bool take_disks(const PlanSettings& settings, double ranks, perfmodels::Machine& machine);

}  // namespace dos::planner

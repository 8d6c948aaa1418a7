// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sched/policy.hpp"

namespace dos::sched {

/// The first subgroups stay on the GPU, options.share of all subgroups or what fits; the others are
/// updated on the CPU (Twin-Flow, ZeRO-Offload++). Throws Error when the share does not fit.
Plan plan_twinflow(const Problem& problem, const PolicyOptions& options);

}  // namespace dos::sched

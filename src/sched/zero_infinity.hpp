// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sched/policy.hpp"

namespace dos::sched {

/// Every state on one disk, the first tier behind host memory, and every update on the CPU, with
/// one subgroup read ahead and one written behind (ZeRO-Infinity, arXiv 2104.07857, as DeepSpeed
/// swaps optimizer states). Without such a tier all states are in host memory. With
/// options.published all workers update one subgroup, then the next.
Plan plan_zero_infinity(const Problem& problem, const PolicyOptions& options);

}  // namespace dos::sched

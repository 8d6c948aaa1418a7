// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sched/policy.hpp"

namespace dos::sched {

/// Everything on the CPU (ZeRO-Offload, arXiv 2101.06840). With options.published the 16-bit copy
/// is a pass of its own after each update.
Plan plan_zero_offload(const Problem& problem, const PolicyOptions& options);

}  // namespace dos::sched

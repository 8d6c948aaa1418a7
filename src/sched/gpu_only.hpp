// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sched/policy.hpp"

namespace dos::sched {

/// Every subgroup is updated on the GPUs: residents while they fit, the others streamed. Throws
/// Error without a GPU or without memory for one streamed subgroup.
Plan plan_gpu_only(const Problem& problem, const PolicyOptions& options);

}  // namespace dos::sched

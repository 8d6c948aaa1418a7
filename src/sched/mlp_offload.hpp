// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sched/policy.hpp"

namespace dos::sched {

/// What host memory does not hold on several disks, every update on the CPU (MLP-Offload, arXiv
/// 2509.02480). Its order alternates, so that of the subgroups in host memory at the end of a step
/// the next one begins with them: as many stay as host memory holds, at the front of the order.
/// Disks have parts by the lesser of their rates. Without disks, or where host memory holds all,
/// nothing is on disks. With options.published all workers update one subgroup, then the next.
Plan plan_mlp_offload(const Problem& problem, const PolicyOptions& options);

}  // namespace dos::sched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sched/policy.hpp"

namespace dos::sched {

/// The fastest plan that the replay finds: shares of the linear programme rounded to whole
/// subgroups, their neighbours, and what every other policy of the registry proposes. A GPU that
/// cannot help gets nothing. With options.share or options.stride the GPU share is that one.
Plan plan_dos(const Problem& problem, const PolicyOptions& options);

}  // namespace dos::sched

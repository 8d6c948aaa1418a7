// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "codelets/update/update.hpp"
#include "rt/session.hpp"

namespace dos::calibration {

/// StarPU trusts a history model of a size after ten measurements, and drops those that are more
/// than 50 % off the mean: three times as many.
inline constexpr Index kHistoryRuns = 32;

/// Runs updates of every size in a session of its own, kHistoryRuns times and more on the CPU
/// workers at once and on each device, so that StarPU has history models of them: in place of what
/// it had. Sizes that do not fit into `most_bytes` of host memory throw Error.
void prime_histories(const rt::SessionConfig& config, const codelets::UpdateKind& kind,
                     std::span<const Index> subgroup_params, Index most_bytes);

}  // namespace dos::calibration

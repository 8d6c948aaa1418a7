// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "sched/step_replay.hpp"

namespace dos::test {

/// Depths that are alike.
inline sched::StepPasses passes(std::size_t depths, double forward, double backward,
                                std::vector<bool> ahead = {}) {
  return {.depths = std::vector<sched::DepthPasses>(
              depths, {.forward = units::Seconds(forward), .backward = units::Seconds(backward)}),
          .ahead = std::move(ahead)};
}

/// Seconds.
inline double step(const sched::Problem& problem, const sched::Plan& plan,
                   const sched::StepPasses& passes) {
  return sched::replay_step(problem, plan, passes).value();
}

}  // namespace dos::test

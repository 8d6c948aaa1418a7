// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sched_starpu/update_board.hpp"

namespace dos::train {

/// The report in lines: the plan, why there is none if so, and the share of the parameters that
/// GPUs were to update and did, for the last steps and on average.
std::string explain(const sched_starpu::Report& report);

}  // namespace dos::train

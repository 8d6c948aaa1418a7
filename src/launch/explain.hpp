// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sched_starpu/step_report.hpp"

namespace dos::launch {

/// The report in lines: the plan and its reason, or why there is none; the share of the parameters
/// that GPUs were to update and did, for the last steps and on average, if there are any; what the
/// workers of each device did with their time since their first task; and what each link had to
/// move and moved, with the part of that time that this takes at its rate; and what of the
/// gradients of CPU updates left devices during backward.
std::string explain(const sched_starpu::UpdatesReport& report);

}  // namespace dos::launch

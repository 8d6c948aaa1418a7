// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sched_starpu/step_report.hpp"
#include "train/speculation.hpp"

namespace dos::launch {

/// The report in lines: the plan and its reason, or why there is none; the share of the parameters
/// that GPUs were to update and did, for the last steps and on average, if there are any; what the
/// workers of each device did with their time since their first task; and what each link had to
/// move and moved, with the part of that time that this takes at its rate; and what of the
/// gradients of CPU updates left devices during backward.
std::string explain(const sched_starpu::UpdatesReport& report);

/// A line on updates that went ahead of the norm, times as means of those steps; "" where none
/// could.
std::string explain(const train::Speculation::Totals& totals);

}  // namespace dos::launch

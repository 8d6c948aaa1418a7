// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trace/report/analysis.hpp"
#include "trace/report/svg.hpp"

namespace dos::trace {

// Drawings of the report, as HTML, with their legends.

/// One step: a lane a worker, a link and a disk, what the submitting thread did, what was held and
/// memory of each node, all on one time axis with the step's start and end. `span_us`: what the
/// width stands for; 0: the step.
std::string iteration_chart(const Trace& trace, const Analysis& analysis, Index step,
                            double span_us = 0);
/// The first of the steps, where the others would be small beside it: it measures what later ones
/// use, and makes all buffers. Null otherwise.
const StepTimes* long_first_step(const Analysis& analysis);
/// All steps but long_first_step(): the duration of each, and memory of each node, on one time
/// axis.
std::string run_chart(const Analysis& analysis);
/// What each worker's time went to.
std::string use_chart(const Analysis& analysis);
/// What each link reached of its peak in each phase.
std::string link_chart(const LinkUse& link);
/// Where each subgroup was sent in the last step, and where it ran; of one without placements "".
std::string placement_chart(const Analysis& analysis);

/// Memory of one node by category, against its capacity: a row of a chart.
std::string memory_row(const MemoryUse& memory, const TimeAxis& axis);
/// Likewise, what of a rank was held.
std::string held_row(const MemoryUse& held, const TimeAxis& axis);
/// Of the categories that lie in memory or were copied.
std::string memory_legend(const Trace& trace, const Analysis& analysis);

}  // namespace dos::trace

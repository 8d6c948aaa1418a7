// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trace/report/analysis.hpp"

namespace dos::trace {

// Drawings of the report, each an <svg> with its legend, as HTML.

/// One step: a lane a worker, a link, and what the submitting thread did. `span_us`: what the width
/// stands for; 0: the step.
std::string timeline_chart(const Trace& trace, const Analysis& analysis, Index step,
                           double span_us = 0);
/// What each worker's time went to.
std::string use_chart(const Analysis& analysis);
/// Memory of one node by category over the run, against its capacity.
std::string memory_chart(const MemoryUse& memory, const Interval& window);
/// What each link reached of its peak in each phase.
std::string link_chart(const LinkUse& link);
/// Duration of each step.
std::string step_chart(const Analysis& analysis);
/// Where each subgroup was sent in the last step, and where it ran; of one without placements "".
std::string placement_chart(const Analysis& analysis);

const char* use_colour(Use use);

}  // namespace dos::trace

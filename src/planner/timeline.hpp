// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "sched/replay.hpp"

namespace dos::planner {

/// One line a resource, 64 columns: how busy it is in each 64th of the update, from blank to full
/// block; the last line of a GPU is the memory that states hold, of its peak. Pre: the replay was
/// recorded.
std::string timeline_text(const sched::Problem& problem, const sched::Replay& replay);

/// What every drawing begins with.
inline constexpr std::string_view kSvgMark = "<svg xmlns=";

/// A drawing of the same as an SVG file: lanes with their activities, the memory curve, and the
/// bound as a line. Pre: the replay was recorded.
std::string timeline_svg(const sched::Problem& problem, const sched::Plan& plan,
                         const sched::Replay& replay, const std::string& title);

}  // namespace dos::planner

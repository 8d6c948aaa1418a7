// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "trace/trace.hpp"

namespace dos::trace {

/// What every such text begins with.
inline constexpr std::string_view kPajeMark = "%EventDef ";

/// The trace in the Paje format, with the container, state, variable and link types that StarPU's
/// own traces have: ViTE and pj_dump read it, StarVZ finds its names. States carry StarPU's extra
/// fields: footprint, job, order of submission, priority, work, iteration (the step) and
/// subiteration (the micro-batch). Times in milliseconds, as StarPU writes them.
std::string to_paje(const Trace& trace);

}  // namespace dos::trace

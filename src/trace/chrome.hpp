// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string_view>

#include "trace/trace.hpp"

namespace dos::trace {

/// What it begins with, dumped.
inline constexpr std::string_view kChromeMark = R"({"displayTimeUnit")";

/// The trace in the JSON format of Chrome's tracing, which Perfetto reads: a process a rank, a
/// thread a worker, a link, the submitting thread and MPI; a counter a memory node.
nlohmann::json to_chrome(const Trace& trace);

}  // namespace dos::trace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trace/report/analysis.hpp"

namespace dos::trace {

/// Checkpoints and disks, as HTML; "" of a trace in which nothing went to or from a file.
std::string storage_section(const Trace& trace, const Analysis& analysis);

}  // namespace dos::trace

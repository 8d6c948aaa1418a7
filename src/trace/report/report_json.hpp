// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "trace/report/analysis.hpp"

namespace dos::trace {

/// What `report --json` prints; docs/traces.md describes it. Times in milliseconds, rates in
/// bytes/s.
nlohmann::json to_json(const Trace& trace, const Analysis& analysis);

}  // namespace dos::trace

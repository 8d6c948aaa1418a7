// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "trace/report/analysis.hpp"

namespace dos::trace {

/// What every page begins with.
inline constexpr std::string_view kPageMark = "<!DOCTYPE html>";

/// A page that needs nothing else: no network, no script.
std::string to_html(const Trace& trace, const Analysis& analysis);

/// Two runs side by side.
std::string compare_html(const std::string& name_a, const Trace& a, const Analysis& analysis_a,
                         const std::string& name_b, const Trace& b, const Analysis& analysis_b);

}  // namespace dos::trace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "watch/run_view.hpp"

namespace dos::watch {

/// What every page begins with.
inline constexpr std::string_view kPageMark = "<!DOCTYPE html>";

/// The run as a page that needs nothing else: no network, no script, no server. `written`: the time
/// that it names. With `seconds` a browser loads it again after so many, which is how it shows what
/// is written in its place meanwhile; without, nothing new will come.
std::string to_page(const RunView& run, const std::string& written, std::optional<double> seconds);

}  // namespace dos::watch

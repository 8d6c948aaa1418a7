// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace dos::log {

/// Sends log lines to standard error as "[time] level message"; `level` is trace, debug, info,
/// warn, error or off. Throws Error for any other level. Called once, by `main`.
void configure(const std::string& level);

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

}  // namespace dos::log

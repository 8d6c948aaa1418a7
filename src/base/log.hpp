// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace dos::log {

enum class Level { kDebug, kInfo, kWarn, kError };

/// Sends log lines to standard error as "[time] level message"; `level` is trace, debug, info,
/// warn, error or off. Throws Error for any other level. Called once, by `main`.
void configure(const std::string& level);

/// Whether lines of this level are shown.
bool shows(Level level);

/// Sends one line to standard error, if lines of its level are shown.
void write(Level level, std::string_view line);

/// Formats and sends a line of this level, if such lines are shown.
template <class... Args>
void format(Level level, fmt::format_string<Args...> text, Args&&... args) {
  if (shows(level)) write(level, fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void debug(fmt::format_string<Args...> text, Args&&... args) {
  format(Level::kDebug, text, std::forward<Args>(args)...);
}

template <class... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
  format(Level::kInfo, text, std::forward<Args>(args)...);
}

template <class... Args>
void warn(fmt::format_string<Args...> text, Args&&... args) {
  format(Level::kWarn, text, std::forward<Args>(args)...);
}

template <class... Args>
void error(fmt::format_string<Args...> text, Args&&... args) {
  format(Level::kError, text, std::forward<Args>(args)...);
}

}  // namespace dos::log

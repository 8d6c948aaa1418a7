// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>

#include "base/error.hpp"

namespace dos::log {
namespace {

spdlog::level::level_enum of_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void configure(const std::string& level) {
  constexpr std::array kLevels{"trace", "debug", "info", "warn", "error", "off"};
  bool known = false;
  for (const char* name : kLevels) known = known || level == name;
  expect(known, "log level '{}' is unknown: use one of {}", level, fmt::join(kLevels, ", "));
  auto logger = std::make_shared<spdlog::logger>(
      "dos", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("[%H:%M:%S] %^%l%$ %v");
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

bool shows(Level level) {
  return spdlog::should_log(of_spdlog(level));
}

void write(Level level, std::string_view line) {
  spdlog::log(of_spdlog(level), line);
}

}  // namespace dos::log

// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <fmt/format.h>

#include <spdlog/sinks/stdout_color_sinks.h>

#include <array>
#include <memory>

#include "base/error.hpp"

namespace dos::log {

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

}  // namespace dos::log

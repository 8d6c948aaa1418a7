// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace dos {

std::string format_bytes(Index bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const int decimals = unit == 0 || value >= 99.95 ? 0 : (value >= 9.995 ? 1 : 2);
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::optional<Index> parse_bytes(std::string_view text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr std::array kUnits{Unit{"MB", 1e6},     Unit{"GB", 1e9},     Unit{"TB", 1e12},
                              Unit{"MiB", 0x1p20}, Unit{"GiB", 0x1p30}, Unit{"TiB", 0x1p40}};
  constexpr double kMost = 1e17;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const auto* unit = std::ranges::find(
      kUnits, text.substr(static_cast<std::size_t>(end - text.data())), &Unit::name);
  if (unit == kUnits.end()) return std::nullopt;
  const double bytes = number * unit->bytes;
  // Not for what is no number, either.
  if (!(bytes >= 1 && bytes <= kMost)) return std::nullopt;
  return std::llround(bytes);
}

std::string format_duration(double seconds) {
  const auto total = static_cast<Index>(std::llround(seconds));
  if (total >= 3600) return fmt::format("{}h{:02}m", total / 3600, total % 3600 / 60);
  if (total >= 60) return fmt::format("{}m{:02}s", total / 60, total % 60);
  return fmt::format("{}s", total);
}

}  // namespace dos

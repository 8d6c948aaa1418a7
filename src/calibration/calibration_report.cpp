// SPDX-License-Identifier: Apache-2.0
#include "calibration/calibration_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.hpp"

namespace dos::calibration {
namespace {

const perfmodels::Units& units_of(const std::string& name) {
  const auto of_tier = tier_number(name);
  return of_tier ? *of_tier->key.units : *key_of(name).units;
}

}  // namespace

const perfmodels::Key& key_of(const std::string& name) {
  const auto& keys = perfmodels::machine_keys();
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&](const perfmodels::Key& key) { return key.name == name; });
  require(found != keys.end(), "a key of the machine file");
  return *found;
}

std::optional<TierNumber> tier_number(const std::string& name) {
  constexpr std::string_view kPrefix = "tier.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::size_t dot = name.find('.', kPrefix.size());
  const auto& keys = perfmodels::tier_keys();
  const auto found = std::ranges::find(keys, name.substr(dot + 1), &perfmodels::TierKey::name);
  require(dot != std::string::npos && found != keys.end(), "a key of a tier of the machine file");
  return TierNumber{name.substr(kPrefix.size(), dot - kPrefix.size()), *found};
}

std::string in_unit(const std::string& key, double value) {
  const perfmodels::Units& units = units_of(key);
  const bool has_unit = &units != &perfmodels::count_units();
  return fmt::format("{:.4g}{}{}", value / units.known.front().factor, has_unit ? " " : "",
                     has_unit ? units.known.front().name : "");
}

std::string table(const std::vector<Result>& results) {
  std::size_t width = 20;
  for (const Result& result : results) width = std::max(width, result.key.size() + 1);
  std::string text = fmt::format("{:<{}}{:>12} {:<9}{:>8}{:>8}  {}\n", "rate", width, "median",
                                 "unit", "spread", "rounds", "what");
  for (const Result& result : results) {
    const perfmodels::Unit& unit = units_of(result.key).known.front();
    const bool was_measured = result.rounds > 0;
    text += fmt::format("{:<{}}{:>12.4g} {:<9}{:>8}{:>8}  {}{}\n", result.key, width,
                        result.value / unit.factor, unit.name,
                        was_measured ? fmt::format("{:.1f} %", result.spread * 100) : "-",
                        was_measured ? fmt::format("{}", result.rounds) : "-", result.how,
                        result.device.empty() ? "" : ": " + result.device);
  }
  return text;
}

std::string changes_text(const std::vector<Change>& changes, const std::string& date) {
  if (changes.empty())
    return fmt::format("nothing differs from the calibration of {} by more than the noise\n", date);
  std::string text = fmt::format("changed since the calibration of {}:\n", date);
  for (const Change& change : changes) {
    const auto shown = [&](const std::optional<double>& value) {
      return value ? in_unit(change.key, *value) : std::string("none");
    };
    const bool comparable = change.before && change.after && *change.before != 0;
    text += fmt::format(
        "  {:<20}{} -> {}{}\n", change.key, shown(change.before), shown(change.after),
        comparable ? fmt::format(" ({:+.1f} %, noise {:.1f} %)",
                                 (*change.after / *change.before - 1) * 100, change.noise * 100)
                   : "");
  }
  return text;
}

}  // namespace dos::calibration

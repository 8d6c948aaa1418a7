// SPDX-License-Identifier: Apache-2.0
#include "calibration/calibration_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace dos::calibration {
namespace {

double factor_of(const perfmodels::Key& key) {
  return key.units->known.front().factor;
}

}  // namespace

const perfmodels::Key& key_of(const std::string& name) {
  const auto& keys = perfmodels::machine_keys();
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&](const perfmodels::Key& key) { return key.name == name; });
  require(found != keys.end(), "a key of the machine file");
  return *found;
}

std::string in_unit(const std::string& key, double value) {
  const perfmodels::Key& entry = key_of(key);
  const bool has_unit = entry.units != &perfmodels::count_units();
  return fmt::format("{:.4g}{}{}", value / factor_of(entry), has_unit ? " " : "",
                     has_unit ? entry.units->known.front().name : "");
}

std::string table(const std::vector<Result>& results) {
  std::string text = fmt::format("{:<20}{:>12} {:<9}{:>8}{:>8}  {}\n", "rate", "median", "unit",
                                 "spread", "rounds", "what");
  for (const Result& result : results) {
    const perfmodels::Key& key = key_of(result.key);
    const bool was_measured = result.rounds > 0;
    text += fmt::format("{:<20}{:>12.4g} {:<9}{:>8}{:>8}  {}{}\n", result.key,
                        result.value / factor_of(key), key.units->known.front().name,
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

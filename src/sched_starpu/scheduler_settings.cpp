// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "sched_starpu/policies.hpp"

namespace dos::sched_starpu {
namespace {

constexpr std::string_view kPrefix = "DOS_SCHED_";
constexpr const char* kStride = "DOS_SCHED_STRIDE";
constexpr const char* kShare = "DOS_SCHED_SHARE";
constexpr const char* kWindow = "DOS_SCHED_WINDOW";
constexpr const char* kResidents = "DOS_SCHED_RESIDENTS";
constexpr const char* kFallback = "DOS_SCHED_FALLBACK";
constexpr const char* kUpdatePrefix = "DOS_SCHED_UPDATE_PREFIX";

/// What the names of all variables have after the prefix.
std::vector<std::string> known_endings() {
  std::vector<std::string> endings;
  for (const char* name : {kStride, kShare, kWindow, kResidents, kFallback, kUpdatePrefix})
    endings.emplace_back(name + kPrefix.size());
  return endings;
}

/// A mistyped variable would be passed over, and the policy run without what was asked for.
void expect_known_variables() {
  const std::vector<std::string> known = known_endings();
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    if (!entry.starts_with(kPrefix)) continue;
    const std::string ending(entry.substr(kPrefix.size(), entry.find('=') - kPrefix.size()));
    if (std::ranges::find(known, ending) != known.end()) continue;
    const std::string nearest = nearest_name(ending, known);
    fail("{}: unknown variable{}; known: {}{}; rename or unset it", entry,
         nearest.empty() ? "" : fmt::format(" (did you mean '{}{}'?)", kPrefix, nearest), kPrefix,
         fmt::join(known, fmt::format(", {}", kPrefix)));
  }
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

template <class T>
std::optional<T> number(const char* name, T least, T most, const char* what) {
  const char* text = variable(name);
  if (text == nullptr) return std::nullopt;
  T value{};
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  // Not a number is neither.
  const bool is_good = error == std::errc{} && stop == end && value >= least && value <= most;
  expect(is_good, "{}={}: must be {}; change or unset it", name, text, what);
  return value;
}

std::optional<Index> count(const char* name) {
  return number<Index>(name, 1, std::numeric_limits<Index>::max(), "a whole number of at least 1");
}

bool flag(const char* name, bool otherwise) {
  return number<int>(name, 0, 1, "0 or 1").value_or(otherwise ? 1 : 0) == 1;
}

}  // namespace

SchedulerSettings settings_from_environment() {
  expect_known_variables();
  SchedulerSettings settings;
  settings.options.stride = count(kStride);
  settings.options.share = number<double>(kShare, 0, 1, "a number from 0 to 1");
  settings.options.window = count(kWindow);
  settings.options.residents = flag(kResidents, settings.options.residents);
  settings.fallback = flag(kFallback, settings.fallback);
  if (const char* prefix = variable(kUpdatePrefix)) settings.update_prefix = prefix;
  expect(!settings.options.stride || !settings.options.share,
         "{}={} and {}={}: set one of them, not both: share = 1 / stride", kStride,
         variable(kStride), kShare, variable(kShare));
  settings.options.validate();
  return settings;
}

}  // namespace dos::sched_starpu

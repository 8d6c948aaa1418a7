// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "sched_starpu/policies.hpp"

namespace dos::sched_starpu {
namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

template <class T>
std::optional<T> number(const char* name, const char* what) {
  const char* text = variable(name);
  if (text == nullptr) return std::nullopt;
  T value{};
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  expect(error == std::errc{} && stop == end, "{}={}: must be {}", name, text, what);
  return value;
}

bool is_on(const char* name, bool otherwise) {
  const std::optional<int> value = number<int>(name, "0 or 1");
  if (!value) return otherwise;
  expect(*value == 0 || *value == 1, "{}={}: must be 0 or 1", name, *value);
  return *value == 1;
}

}  // namespace

Settings settings_from_environment() {
  Settings settings;
  settings.options.stride = number<Index>("DOS_SCHED_STRIDE", "a whole number of at least 1");
  settings.options.share = number<double>("DOS_SCHED_SHARE", "a number from 0 to 1");
  settings.options.window = number<Index>("DOS_SCHED_WINDOW", "a whole number of at least 1");
  settings.options.residents = is_on("DOS_SCHED_RESIDENTS", settings.options.residents);
  if (const char* prefix = variable("DOS_SCHED_UPDATE_PREFIX")) settings.update_prefix = prefix;
  settings.options.validate();
  return settings;
}

}  // namespace dos::sched_starpu

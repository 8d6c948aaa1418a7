// SPDX-License-Identifier: Apache-2.0
#include "base/scoped_environment.hpp"

#include <cstdlib>

namespace dos {

ScopedEnvironment::~ScopedEnvironment() {
  for (auto change = before_.rbegin(); change != before_.rend(); ++change) {
    const auto& [name, value] = *change;
    if (value)
      setenv(name.c_str(), value->c_str(), /*replace=*/1);
    else
      unsetenv(name.c_str());
  }
}

void ScopedEnvironment::remember(const char* name) {
  const char* value = std::getenv(name);
  before_.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
}

void ScopedEnvironment::remove(const char* name) {
  remember(name);
  unsetenv(name);
}

void ScopedEnvironment::set_default(const char* name, const char* value) {
  if (std::getenv(name) != nullptr) return;
  remember(name);
  setenv(name, value, /*replace=*/1);
}

}  // namespace dos

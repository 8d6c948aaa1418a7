// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dos {

/// Environment variables as a C library wants them, restored by the destructor. Not thread-safe:
/// for before the library starts its threads and after it has ended them.
class ScopedEnvironment {
 public:
  ScopedEnvironment() = default;
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;
  ~ScopedEnvironment();

  void remove(const char* name);
  /// A value that the user has set stays.
  void set_default(const char* name, const char* value);

 private:
  void remember(const char* name);
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

}  // namespace dos

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace dos {

/// What a user can cause and repair: bad input, a full disk, too little memory. The message names
/// the value, the place and the remedy. `main` prints it and exits with status 1; nothing else
/// exits.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A broken contract between two pieces of this program: a defect, not a user's mistake.
class ContractViolation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws Error with a formatted message.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

/// Throws Error with a formatted message unless `condition` holds.
template <class... Args>
void expect(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) fail(text, std::forward<Args>(args)...);
}

/// Throws Error: `what` failed with the given errno value, e.g. "data/x.bin: cannot open: No such
/// file".
[[noreturn]] void fail_errno(const std::string& what, int errno_value);

/// Throws ContractViolation, with the place, unless `condition` holds. The place is a default
/// argument: clang 14 lacks std::source_location.
void require(bool condition, const char* what, const char* file = __builtin_FILE(),
             int line = __builtin_LINE());

}  // namespace dos

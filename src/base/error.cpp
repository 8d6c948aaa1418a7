// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <system_error>

namespace dos {

void fail_errno(const std::string& what, int errno_value) {
  throw Error(what + ": " + std::generic_category().message(errno_value));
}

void require(bool condition, const char* what, const char* file, int line) {
  if (condition) return;
  throw ContractViolation(fmt::format("{}:{}: contract violated: {}", file, line, what));
}

}  // namespace dos

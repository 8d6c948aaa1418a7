// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/error.hpp"

namespace dos::test {

/// Matches a callable that throws Error with a one-line message holding every part.
inline auto fails_with(const std::vector<std::string>& parts) {
  std::vector<testing::Matcher<std::string>> matchers{testing::Not(testing::HasSubstr("\n"))};
  for (const std::string& part : parts) matchers.push_back(testing::HasSubstr(part));
  return testing::ThrowsMessage<Error>(testing::AllOfArray(matchers));
}

}  // namespace dos::test

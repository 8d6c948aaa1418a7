// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace dos::test {

/// What `action` says when it throws E; "" when it does not throw.
template <class E, class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace dos::test

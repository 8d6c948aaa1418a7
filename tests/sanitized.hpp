// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/sanitizer.hpp"

namespace dos::test {

/// How many random cases a sweep draws: a sanitizer slows it down ten times, and looks for what any
/// of them would do.
template <class I>
constexpr I cases(I all) {
  return kIsSanitized ? all / 10 : all;
}

}  // namespace dos::test

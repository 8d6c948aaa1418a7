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

/// Whether a sweep over combinations tries this one, the `number`th of them: with a sanitizer every
/// `stride`th, which is to share no divisor with how many values an option has.
template <class I>
constexpr bool tries(I number, I stride) {
  return !kIsSanitized || number % stride == 0;
}

}  // namespace dos::test

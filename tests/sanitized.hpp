// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dos::test {

/// Whether a sanitizer watches, with an allocator and signal handlers of its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// How many random cases a sweep draws: a sanitizer slows it down ten times, and looks for what any
/// of them would do.
template <class I>
constexpr I cases(I all) {
  return kIsSanitized ? all / 10 : all;
}

}  // namespace dos::test

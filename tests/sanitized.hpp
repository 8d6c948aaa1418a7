// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dos::test {

/// Whether a sanitizer watches, with an allocator and signal handlers of its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace dos::test

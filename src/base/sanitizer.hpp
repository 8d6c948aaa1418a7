// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dos {

/// Which sanitizer of the compiler watches this build, with an allocator and signal handlers of its
/// own.
#if defined(__has_feature)
inline constexpr bool kHasAddressSanitizer = __has_feature(address_sanitizer);
inline constexpr bool kHasThreadSanitizer = __has_feature(thread_sanitizer);
#else
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kHasAddressSanitizer = true;
#else
inline constexpr bool kHasAddressSanitizer = false;
#endif
#ifdef __SANITIZE_THREAD__
inline constexpr bool kHasThreadSanitizer = true;
#else
inline constexpr bool kHasThreadSanitizer = false;
#endif
#endif
inline constexpr bool kIsSanitized = kHasAddressSanitizer || kHasThreadSanitizer;

}  // namespace dos

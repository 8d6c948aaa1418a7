// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "base/types.hpp"

#ifdef __SSE__
#include <xmmintrin.h>
#endif

/// Stores past the caches, for what nobody reads soon: the memory is written without being read
/// first. Where the processor has no such stores they are ordinary ones.
namespace dos::simd {

inline constexpr Index kStreamed = 4;  ///< elements that are stored at a time

/// Whether `to` is aligned as stream() needs it.
[[gnu::always_inline]] inline bool can_stream(const float* to) {
  return reinterpret_cast<std::uintptr_t>(to) % (kStreamed * sizeof(float)) == 0;
}

/// Copies elements; those of `from` are aligned, too. Pre: can_stream(to); `count` is a multiple of
/// kStreamed.
[[gnu::always_inline]] inline void stream(float* to, const float* from, Index count) {
#ifdef __SSE__
  for (Index i = 0; i < count; i += kStreamed) _mm_stream_ps(to + i, _mm_load_ps(from + i));
#else
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
#endif
}

/// To be called behind the last stream(), before others are told that the elements are there.
[[gnu::always_inline]] inline void finish_streams() {
#ifdef __SSE__
  _mm_sfence();
#endif
}

}  // namespace dos::simd

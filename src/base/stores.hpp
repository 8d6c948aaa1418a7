// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace dos {

/// Four numbers that a register holds.
using Four = float __attribute__((vector_size(16)));

inline Four load_four(const void* from) {
  Four four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

inline void store_four(float* to, Four four) {
  std::memcpy(to, &four, sizeof four);
}

/// Whether an address is the beginning of a cache line.
inline bool begins_line(const void* address) {
  constexpr std::uintptr_t kLine = 64;
  return reinterpret_cast<std::uintptr_t>(address) % kLine == 0;
}

/// Past the cache, where the processor can: memory is then not read before it is overwritten. For
/// whole cache lines of what is not read soon; finish_stores_past_cache() before another thread
/// does. Pre: `to` is a multiple of 16.
inline void store_past_cache(float* to, Four four) {
#ifdef __SSE2__
  _mm_stream_ps(to, four);
#else
  store_four(to, four);
#endif
}

inline void finish_stores_past_cache() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace dos

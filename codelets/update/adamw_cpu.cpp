// SPDX-License-Identifier: Apache-2.0
#include "codelets/update/adamw.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;
constexpr Index kChunk = 64;   // four cache lines of each array
constexpr Index kAhead = 512;  // elements between what is fetched and what is computed
constexpr Index kCacheLine = 16;

/// Square root and division hide part of the loads from the out-of-order window: without this the
/// loop reaches 0.85 to 0.9 of what plain additions on the same arrays do, with it all.
void fetch(const float* g, const float* p, const float* m, const float* v) {
  for (Index i = 0; i < kChunk; i += kCacheLine) {
    __builtin_prefetch(g + i, 0);
    __builtin_prefetch(p + i, 1);
    __builtin_prefetch(m + i, 1);
    __builtin_prefetch(v + i, 1);
  }
}

}  // namespace

template <>
void adamw_cpu<kIsa>(const AdamWStep& step, Index count, float clip, const float* __restrict g,
                     float* __restrict p, float* __restrict m, float* __restrict v) {
  if (clip != clip) return;
  const AdamWStep s = step;
  Index first = 0;
  for (; first + kChunk <= count; first += kChunk) {
    const Index next = first + kAhead + kChunk <= count ? first + kAhead : first;
    fetch(g + next, p + next, m + next, v + next);
#pragma omp simd
    for (Index i = first; i < first + kChunk; ++i) {
      adamw_element(p[i], m[i], v[i], g[i] * clip, s);
    }
  }
#pragma omp simd
  for (Index i = first; i < count; ++i) adamw_element(p[i], m[i], v[i], g[i] * clip, s);
}

}  // namespace dos::codelets

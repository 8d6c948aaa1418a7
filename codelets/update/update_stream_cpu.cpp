// SPDX-License-Identifier: Apache-2.0
#include "codelets/update/update_stream.hpp"

#include <utility>

namespace dos::codelets {
namespace {

// As the update fetches ahead.
constexpr Index kChunk = 64;
constexpr Index kAhead = 256;
constexpr Index kCacheLine = 64;

template <int kWrites, class T>
[[gnu::always_inline]] inline void fetch(const T* array) {
  constexpr Index kElements = kCacheLine / Index{sizeof(T)};
  for (Index i = 0; i < kChunk; i += kElements) __builtin_prefetch(array + i, kWrites);
}

[[gnu::always_inline]] inline void cut(float* /*w*/, Index /*i*/, float /*p*/) {}
[[gnu::always_inline]] inline void cut(BF16* w, Index i, float p) {
  w[i] = {static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, p) >> 16U)};
}

template <bool kFetches, class G, class W, class... States>
void add(Index count, const G* __restrict g, float* __restrict p, W* __restrict w,
         States* __restrict... states) {
  const auto add_part = [&](Index first, Index last) __attribute__((always_inline)) {
#pragma omp simd
    for (Index i = first; i < last; ++i) {
      const float gradient = to_float(g[i]);
      p[i] += gradient;
      ((states[i] += gradient), ...);
      cut(w, i, p[i]);
    }
  };
  Index first = 0;
  for (; kFetches && first + kChunk <= count; first += kChunk) {
    const Index next = first + kAhead + kChunk <= count ? first + kAhead : first;
    fetch<0>(g + next);
    fetch<1>(p + next);
    (fetch<1>(states + next), ...);
    if constexpr (sizeof(W) == sizeof(BF16)) fetch<1>(w + next);
    add_part(first, first + kChunk);
  }
  add_part(first, count);
}

template <bool kFetches, class G, class W, int... kStates>
[[gnu::always_inline]] inline void unpack(const UpdateArrays& a,
                                          std::integer_sequence<int, kStates...> /*states*/) {
  W* w = nullptr;
  if constexpr (sizeof(W) == sizeof(BF16)) w = a.w;
  add<kFetches, G, W>(a.count, static_cast<const G*>(a.g), a.p, w, a.states[kStates]...);
}

template <bool kFetches, class G, class W, int kStates>
void stream(const UpdateArrays& arrays) {
  unpack<kFetches, G, W>(arrays, std::make_integer_sequence<int, kStates>{});
}

template <bool kFetches, int... kLess>
UpdateStream stream_of(const UpdateKind& kind, Index states,
                       std::integer_sequence<int, kLess...> /*less*/) {
  static constexpr UpdateStream kStreams[][2][2] = {
      {{&stream<kFetches, float, float, kLess + 1>, &stream<kFetches, float, BF16, kLess + 1>},
       {&stream<kFetches, BF16, float, kLess + 1>, &stream<kFetches, BF16, BF16, kLess + 1>}}...};
  return kStreams[states - 1][kind.gradient == DType::kBF16][kind.working == DType::kBF16];
}

}  // namespace

template <>
UpdateStream update_stream<simd::Isa::DOS_ISA>(const UpdateKind& kind, Index states,
                                               bool fetches_ahead) {
  const std::make_integer_sequence<int, kMostStates> less;
  return fetches_ahead ? stream_of<true>(kind, states, less) : stream_of<false>(kind, states, less);
}

}  // namespace dos::codelets

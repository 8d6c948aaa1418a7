// SPDX-License-Identifier: Apache-2.0
#include "codelets/update/update.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "codelets/simd/stream_store.hpp"
#include "codelets/update/rules/all_rules.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;
constexpr Index kChunk = 64;   // four cache lines of each FP32 array
constexpr Index kAhead = 256;  // elements between what is fetched and what is computed
constexpr Index kCacheLine = 64;
/// Elements that are made at a time where they are not made in place: with two states 12 KiB.
constexpr Index kApart = 1024;

// Square root and division hide part of the loads from the out-of-order window: without fetching
// ahead the loop reaches 0.85 to 0.9 of what plain additions on the same arrays do, with it all.
// Of 128, 256, 512 and 1024 elements, 256 was best where g is BF16, and none was better in FP32.
template <int kWrites, class T>
[[gnu::always_inline]] inline void fetch(const T* array) {
  constexpr Index kElements = kCacheLine / Index{sizeof(T)};
  for (Index i = 0; i < kChunk; i += kElements) __builtin_prefetch(array + i, kWrites);
}

[[gnu::always_inline]] inline void store(float* /*w*/, Index /*i*/, float /*p*/) {}
[[gnu::always_inline]] inline void store(BF16* w, Index i, float p) {
  w[i] = to_bf16(p);
}

template <class Rule, class G, class W, class... States>
void update(const typename Rule::Step& step, Index count, float clip, const G* __restrict g,
            float* __restrict p, W* __restrict w, States* __restrict... states) {
  if (clip != clip) {
#pragma omp simd
    for (Index i = 0; i < count; ++i) store(w, i, p[i]);
    return;
  }
  const typename Rule::Step s = step;
  Index first = 0;
  for (; first + kChunk <= count; first += kChunk) {
    const Index next = first + kAhead + kChunk <= count ? first + kAhead : first;
    fetch<0>(g + next);
    fetch<1>(p + next);
    (fetch<1>(states + next), ...);
    if constexpr (sizeof(W) == sizeof(BF16)) fetch<1>(w + next);
#pragma omp simd
    for (Index i = first; i < first + kChunk; ++i) {
      Rule::element(p + i, states + i..., to_float(g[i]) * clip, s);
      store(w, i, p[i]);
    }
  }
#pragma omp simd
  for (Index i = first; i < count; ++i) {
    Rule::element(p + i, states + i..., to_float(g[i]) * clip, s);
    store(w, i, p[i]);
  }
}

template <class W>
[[gnu::always_inline]] inline W* working(const UpdateArrays& arrays) {
  if constexpr (sizeof(W) == sizeof(BF16))
    return arrays.w;
  else
    return nullptr;
}

template <class Rule, class G, class W, int... kStates>
[[gnu::always_inline]] inline void unpack(const void* step, const UpdateArrays& a,
                                          std::integer_sequence<int, kStates...> /*states*/) {
  update<Rule, G, W>(*static_cast<const typename Rule::Step*>(step), a.count, *a.clip,
                     static_cast<const G*>(a.g), a.p, working<W>(a), a.states[kStates]...);
}

/// Not in place: chunks are made in the first cache and leave it past the others, so that their
/// memory is not read before, and the traffic is that of an update in place.
template <class Rule, class G, class W, int... kStates>
[[gnu::always_inline]] inline void update_apart(const void* step, const UpdateArrays& a,
                                                std::integer_sequence<int, kStates...> /*states*/) {
  const auto& s = *static_cast<const typename Rule::Step*>(step);
  const G* g = static_cast<const G*>(a.g);
  W* w = working<W>(a);
  alignas(kCacheLine) float p[kApart];
  alignas(kCacheLine) float states[sizeof...(kStates)][kApart];
  const bool streams = simd::can_stream(a.p) && (simd::can_stream(a.states[kStates]) && ...);
  for (Index first = 0; first < a.count; first += kApart) {
    const Index count = std::min(kApart, a.count - first);
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
    std::memcpy(p, a.old_p + first, bytes);
    (std::memcpy(states[kStates], a.old_states[kStates] + first, bytes), ...);
    update<Rule, G, W>(s, count, *a.clip, g + first, p, w == nullptr ? w : w + first,
                       states[kStates]...);
    const auto put = [&](float* to, const float* made) {
      if (streams && count == kApart)
        simd::stream(to, made, kApart);
      else
        std::memcpy(to, made, bytes);
    };
    put(a.p + first, p);
    (put(a.states[kStates] + first, states[kStates]), ...);
  }
  if (streams) simd::finish_streams();
}

template <class Rule, class G, class W>
void kernel(const void* step, const UpdateArrays& arrays) {
  constexpr std::make_integer_sequence<int, kStatesOf<Rule>> kStates;
  if (arrays.in_place())
    unpack<Rule, G, W>(step, arrays, kStates);
  else
    update_apart<Rule, G, W>(step, arrays, kStates);
}

template <class... Rules>
UpdateKernel kernel_of(const UpdateKind& kind, RuleList<Rules...> /*list*/) {
  static constexpr UpdateKernel kKernels[][2][2] = {
      {{&kernel<Rules, float, float>, &kernel<Rules, float, BF16>},
       {&kernel<Rules, BF16, float>, &kernel<Rules, BF16, BF16>}}...};
  return kKernels[kind.rule][kind.gradient == DType::kBF16][kind.working == DType::kBF16];
}

}  // namespace

template <>
UpdateKernel update_cpu<kIsa>(const UpdateKind& kind) {
  return kernel_of(kind, AllRules{});
}

}  // namespace dos::codelets

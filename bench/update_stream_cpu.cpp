// SPDX-License-Identifier: Apache-2.0
#include "update_stream.hpp"

#include <utility>

namespace dos::bench {
namespace {

using codelets::UpdateArrays;

[[gnu::always_inline]] inline void cut(float* /*w*/, Index /*i*/, float /*p*/) {}
[[gnu::always_inline]] inline void cut(BF16* w, Index i, float p) {
  w[i] = {static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, p) >> 16U)};
}

template <class G, class W, class... States>
void add(Index count, const G* __restrict g, float* __restrict p, W* __restrict w,
         States* __restrict... states) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) {
    const float gradient = to_float(g[i]);
    p[i] += gradient;
    ((states[i] += gradient), ...);
    cut(w, i, p[i]);
  }
}

template <class G, class W, int... kStates>
[[gnu::always_inline]] inline void unpack(const UpdateArrays& a,
                                          std::integer_sequence<int, kStates...> /*states*/) {
  W* w = nullptr;
  if constexpr (sizeof(W) == sizeof(BF16)) w = a.w;
  add<G, W>(a.count, static_cast<const G*>(a.g), a.p, w, a.states[kStates]...);
}

template <class G, class W, int kStates>
void stream(const UpdateArrays& arrays) {
  unpack<G, W>(arrays, std::make_integer_sequence<int, kStates>{});
}

template <int... kLess>
UpdateStream stream_of(const codelets::UpdateKind& kind, Index states,
                       std::integer_sequence<int, kLess...> /*less*/) {
  static constexpr UpdateStream kStreams[][2][2] = {
      {{&stream<float, float, kLess + 1>, &stream<float, BF16, kLess + 1>},
       {&stream<BF16, float, kLess + 1>, &stream<BF16, BF16, kLess + 1>}}...};
  return kStreams[states - 1][kind.gradient == DType::kBF16][kind.working == DType::kBF16];
}

}  // namespace

template <>
UpdateStream update_stream<simd::Isa::DOS_ISA>(const codelets::UpdateKind& kind, Index states) {
  return stream_of(kind, states, std::make_integer_sequence<int, codelets::kMostStates>{});
}

}  // namespace dos::bench

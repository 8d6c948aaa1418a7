// SPDX-License-Identifier: Apache-2.0
#include "codelets/simd/elements.hpp"
#include "codelets/simd/math.hpp"
#include "codelets/swiglu/silu.hpp"
#include "codelets/swiglu/swiglu.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;

}  // namespace

template <simd::Isa, class T>
void swiglu_forward_cpu(const SwigluShape& shape, const T* __restrict x, T* __restrict out) {
  const Index hidden = shape.hidden;
  for (Index t = 0; t < shape.tokens; ++t) {
    const T* gate = x + 2 * t * hidden;
    const T* up = gate + hidden;
    T* to = out + t * hidden;
#pragma omp simd
    for (Index i = 0; i < hidden; ++i) {
      const float in = to_float(gate[i]);
      const Silu factor = silu(in, simd::exponential(-__builtin_fabsf(in)));
      simd::put(to + i, factor.value * to_float(up[i]));
    }
  }
}

template <simd::Isa, class T>
void swiglu_backward_cpu(const SwigluShape& shape, const T* __restrict x, const T* __restrict dout,
                         T* __restrict dx) {
  const Index hidden = shape.hidden;
  for (Index t = 0; t < shape.tokens; ++t) {
    const T* gate = x + 2 * t * hidden;
    const T* up = gate + hidden;
    const T* dy = dout + t * hidden;
    T* dgate = dx + 2 * t * hidden;
    T* dup = dgate + hidden;
#pragma omp simd
    for (Index i = 0; i < hidden; ++i) {
      const float in = to_float(gate[i]);
      const float gradient = to_float(dy[i]);
      const Silu factor = silu(in, simd::exponential(-__builtin_fabsf(in)));
      simd::put(dgate + i, gradient * to_float(up[i]) * factor.slope);
      simd::put(dup + i, gradient * factor.value);
    }
  }
}

template void swiglu_forward_cpu<kIsa>(const SwigluShape&, const float*, float*);
template void swiglu_forward_cpu<kIsa>(const SwigluShape&, const BF16*, BF16*);
template void swiglu_backward_cpu<kIsa>(const SwigluShape&, const float*, const float*, float*);
template void swiglu_backward_cpu<kIsa>(const SwigluShape&, const BF16*, const BF16*, BF16*);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#include "codelets/gelu/gelu.hpp"

#include "codelets/simd/elements.hpp"
#include "codelets/simd/math.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;
constexpr float kCubic = 0.044715F;
constexpr float kTwiceRootTwoOverPi = 1.5957691216057308F;
// Beyond it the derivative is 0 or 1 to the last bit that counts: e^-87.
constexpr float kFlat = 10.0F;

}  // namespace

// 0.5 (1 + tanh(u)) = 1 / (1 + e^(-2u)): no cancellation for negative u.
template <simd::Isa, class T>
void gelu_forward_cpu(Index count, const T* __restrict x, T* __restrict y) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) {
    const float in = to_float(x[i]);
    const float twice_u = kTwiceRootTwoOverPi * (in + kCubic * in * in * in);
    simd::put(y + i, in / (1.0F + simd::exponential(-twice_u)));
  }
}

// With s the sigmoid of 2u: gelu' = s + x s (1 - s) (2u)', and 1 - s = e^(-2u) s.
template <simd::Isa, class T>
void gelu_backward_cpu(Index count, const T* __restrict x, T* __restrict dy) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) {
    const float in = to_float(x[i]);
    const float above = in < -kFlat ? -kFlat : in;
    const float z = kFlat < above ? kFlat : above;
    const float twice_u = kTwiceRootTwoOverPi * (z + kCubic * z * z * z);
    const float slope = kTwiceRootTwoOverPi * (1.0F + 3.0F * kCubic * z * z);
    const float e = simd::exponential(-twice_u);
    const float s = 1.0F / (1.0F + e);
    // in - in is 0, or NaN where the forward pass met an infinite x.
    simd::put(dy + i, to_float(dy[i]) * (s + z * s * (e * s) * slope + (in - in)));
  }
}

template void gelu_forward_cpu<kIsa>(Index, const float*, float*);
template void gelu_forward_cpu<kIsa>(Index, const BF16*, BF16*);
template void gelu_backward_cpu<kIsa>(Index, const float*, float*);
template void gelu_backward_cpu<kIsa>(Index, const BF16*, BF16*);

}  // namespace dos::codelets

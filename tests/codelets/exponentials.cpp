// SPDX-License-Identifier: Apache-2.0
#include "exponentials.hpp"

#include "codelets/simd/math.hpp"
#include "codelets/simd/vectors.hpp"

namespace dos::test {

template <>
void exponentials<simd::Isa::DOS_ISA>(Index count, const float* __restrict x, float* __restrict y) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) y[i] = simd::exponential(x[i]);
}

using V = simd::Vectors<simd::Isa::DOS_ISA>;

template <>
void powers_of_two<simd::Isa::DOS_ISA>(Index count, const float* x, float* y) {
  for (Index i = 0; i < count; i += V::kLanes)
    simd::store(y + i, simd::power_of_two<V>(simd::load<V::Floats>(x + i)));
}

template <>
void logarithms<simd::Isa::DOS_ISA>(Index count, const float* x, float* y) {
  for (Index i = 0; i < count; i += V::kLanes)
    simd::store(y + i, simd::logarithm<V>(simd::load<V::Floats>(x + i)));
}

}  // namespace dos::test

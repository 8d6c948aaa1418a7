// SPDX-License-Identifier: Apache-2.0
#include "exponentials.hpp"

#include "codelets/simd/math.hpp"

namespace dos::test {

template <>
void exponentials<simd::Isa::DOS_ISA>(Index count, const float* __restrict x, float* __restrict y) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) y[i] = simd::exponential(x[i]);
}

}  // namespace dos::test

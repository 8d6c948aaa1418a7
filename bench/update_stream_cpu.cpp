// SPDX-License-Identifier: Apache-2.0
#include "update_stream.hpp"

namespace dos::bench {

template <>
void update_stream<simd::Isa::DOS_ISA>(Index count, const float* __restrict g, float* __restrict p,
                                       float* __restrict m, float* __restrict v) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) {
    p[i] += g[i];
    m[i] += g[i];
    v[i] += g[i];
  }
}

}  // namespace dos::bench

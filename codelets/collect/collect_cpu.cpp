// SPDX-License-Identifier: Apache-2.0
#include "base/bf16.hpp"
#include "codelets/collect/collect.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;

}  // namespace

template <simd::Isa, class T>
void add_gradient_cpu(Index count, bool first, const T* __restrict x, float* __restrict sum) {
  if (first) {
#pragma omp simd
    for (Index i = 0; i < count; ++i) sum[i] = to_float(x[i]);
  } else {
#pragma omp simd
    for (Index i = 0; i < count; ++i) sum[i] += to_float(x[i]);
  }
}

template void add_gradient_cpu<kIsa>(Index, bool, const float*, float*);
template void add_gradient_cpu<kIsa>(Index, bool, const BF16*, float*);

}  // namespace dos::codelets

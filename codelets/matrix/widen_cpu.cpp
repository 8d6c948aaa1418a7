// SPDX-License-Identifier: Apache-2.0
#include "codelets/matrix/widen.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;

}  // namespace

template <simd::Isa>
void widen_cpu(Index rows, Index columns, const BF16* from, Index stride, float* to) {
  for (Index row = 0; row < rows; ++row) {
    const BF16* __restrict source = from + row * stride;
    float* __restrict target = to + row * columns;
#pragma omp simd
    for (Index i = 0; i < columns; ++i) target[i] = to_float(source[i]);
  }
}

template void widen_cpu<kIsa>(Index, Index, const BF16*, Index, float*);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#include "codelets/reduce/reduce.hpp"

#include "base/bf16.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;

}  // namespace

template <simd::Isa, class T>
double sum_of_squares_cpu(Index count, const T* x) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < count; ++i) {
    const double value = to_float(x[i]);
    sum += value * value;
  }
  return sum;
}

template double sum_of_squares_cpu<kIsa>(Index, const float*);
template double sum_of_squares_cpu<kIsa>(Index, const BF16*);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#include "codelets/reduce/reduce.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;

}  // namespace

template <>
double sum_of_squares_cpu<kIsa>(Index count, const float* x) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < count; ++i) {
    const double value = x[i];
    sum += value * value;
  }
  return sum;
}

}  // namespace dos::codelets

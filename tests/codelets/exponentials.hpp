// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::test {

/// y[i] = simd::exponential(x[i]), vectorised as in the kernels.
template <simd::Isa>
void exponentials(Index count, const float* x, float* y);

/// y[i] = simd::power_of_two(x[i]) and simd::logarithm(x[i]). Pre: count fills vectors of 16.
template <simd::Isa>
void powers_of_two(Index count, const float* x, float* y);
template <simd::Isa>
void logarithms(Index count, const float* x, float* y);

}  // namespace dos::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::test {

/// y[i] = simd::exponential(x[i]), vectorised as in the kernels.
template <simd::Isa>
void exponentials(Index count, const float* x, float* y);

}  // namespace dos::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/bf16.hpp"
#include "base/types.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// to[rows, columns] = the FP32 values of from[rows, columns], whose rows lie `stride` apart.
template <simd::Isa>
void widen_cpu(Index rows, Index columns, const BF16* from, Index stride, float* to);

}  // namespace dos::codelets

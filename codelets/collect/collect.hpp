// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// sum[i] = x[i] if `first`, else sum[i] + x[i], in FP32; T is float or BF16. One rounding an
/// element and addition: the order in which ranks are added decides the bits, nothing else.
template <simd::Isa, class T>
void add_gradient_cpu(Index count, bool first, const T* x, float* sum);

}  // namespace dos::codelets

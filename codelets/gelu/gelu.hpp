// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// y = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the tanh form of GELU (Hendrycks & Gimpel).
/// T is float or BF16; computed in FP32 and rounded once.
template <simd::Isa, class T>
void gelu_forward_cpu(Index count, const T* x, T* y);

/// dy *= gelu'(x), in place.
template <simd::Isa, class T>
void gelu_backward_cpu(Index count, const T* x, T* dy);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/cuda/context.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// y = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the tanh form of GELU (Hendrycks & Gimpel),
/// of each of `count` elements, float or BF16; computed in FP32 and rounded once.
template <simd::Isa, class T>
void gelu_forward_cpu(Index count, const T* x, T* y);

/// dy *= gelu'(x), in place.
template <simd::Isa, class T>
void gelu_backward_cpu(Index count, const T* x, T* dy);

/// On a GPU (cuda/context.hpp).
const char* gelu_forward_cuda(const CudaContext& context, DType type, Index count, const void* x,
                              void* y);
const char* gelu_backward_cuda(const CudaContext& context, DType type, Index count, const void* x,
                               void* dy);

}  // namespace dos::codelets

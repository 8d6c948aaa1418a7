// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/cuda/context.hpp"
#include "codelets/simd/isa.hpp"

/// SwiGLU: silu(gate) * up with silu(x) = x / (1 + e^-x), elementwise (Shazeer, "GLU Variants
/// Improve Transformer", arXiv 2002.05202, equation 5 with beta = 1, without its products and
/// biases). For the feed-forward layers of LLaMA-type models, where one product of twice the width
/// computes gate and up.
namespace dos::codelets {

/// A row of the input, as the fused projection writes it, is [2 * hidden] elements: those of the
/// gate, then those of up. Either size may be 0.
struct SwigluShape {
  Index tokens;
  Index hidden;
};

/// out[tokens, hidden] = silu(gate) * up, with x[tokens, 2 * hidden] the rows of gate and up.
/// T is float or BF16; computed in FP32 and rounded once. For gates below -86.6, where |silu| is
/// below 2^-118, it may be taken for 0. Where gate or up is not finite, neither is out, which must
/// not overlap x.
template <simd::Isa, class T>
void swiglu_forward_cpu(const SwigluShape& shape, const T* x, T* out);

/// dx[tokens, 2 * hidden], each row the gradients of its gates, dout * up * silu'(gate), then those
/// of up, dout * silu(gate). x and dout[tokens, hidden] are read; the rest is as above. Where gate,
/// up or dout is not finite, one of the two gradients at least is not either. dx must not overlap
/// the inputs.
template <simd::Isa, class T>
void swiglu_backward_cpu(const SwigluShape& shape, const T* x, const T* dout, T* dx);

/// On a GPU (cuda/context.hpp).
const char* swiglu_forward_cuda(const CudaContext& context, DType type, const SwigluShape& shape,
                                const void* x, void* out);
const char* swiglu_backward_cuda(const CudaContext& context, DType type, const SwigluShape& shape,
                                 const void* x, const void* dout, void* dx);

}  // namespace dos::codelets

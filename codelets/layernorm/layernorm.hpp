// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "base/types.hpp"
#include "codelets/cuda/context.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// Added to the variance under the square root, as in GPT-2.
inline constexpr float kLayerNormEpsilon = 1e-5F;

/// Layer normalisation over the last dimension of x[tokens, width]:
/// y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(var + kLayerNormEpsilon), biased
/// variance. statistics[tokens, 2] receives (mean, rstd) of each token. T is the type of
/// activations and working parameters, float or BF16; everything is computed in FP32.
template <simd::Isa, class T>
void layernorm_forward_cpu(Index tokens, Index width, const T* x, const T* weight, const T* bias,
                           T* y, float* statistics);

/// dx = d(layernorm)/dx applied to dy, plus `residual` (the gradient that by-passes the norm; may
/// be null). All [tokens, width]; dx must not overlap the inputs.
template <simd::Isa, class T>
void layernorm_backward_cpu(Index tokens, Index width, const T* x, const T* weight,
                            const float* statistics, const T* dy,
                            const std::type_identity_t<T>* residual, T* dx);

/// dweight[width] (+)= sum over tokens of dy * normalised x; dbias[width] (+)= sum of dy. G is
/// the type of the gradients of parameters, float or BF16; the sums are FP32.
template <simd::Isa, class T, class G>
void layernorm_backward_weight_cpu(Index tokens, Index width, const T* x, const float* statistics,
                                   const T* dy, bool accumulate, G* dweight, G* dbias);

/// What the kernels on a GPU have in common.
struct LayerNormArrays {
  Index tokens;
  Index width;
  const void* x;
  const void* weight;  ///< not read by layernorm_backward_weight_cuda
};

/// On a GPU (cuda/context.hpp).
const char* layernorm_forward_cuda(const CudaContext& context, DType type,
                                   const LayerNormArrays& arrays, const void* bias, void* y,
                                   float* statistics);
const char* layernorm_backward_cuda(const CudaContext& context, DType type,
                                    const LayerNormArrays& arrays, const float* statistics,
                                    const void* dy, const void* residual, void* dx);
const char* layernorm_backward_weight_cuda(const CudaContext& context, DType type, DType gradient,
                                           const LayerNormArrays& arrays, const float* statistics,
                                           const void* dy, bool accumulate, void* dweight,
                                           void* dbias);

}  // namespace dos::codelets

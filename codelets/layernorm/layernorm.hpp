// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// Added to the variance under the square root, as in GPT-2.
inline constexpr float kLayerNormEpsilon = 1e-5F;

/// Layer normalisation over the last dimension of x[tokens, width]:
/// y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(var + kLayerNormEpsilon), biased
/// variance. statistics[tokens, 2] receives (mean, rstd) of each token.
template <simd::Isa>
void layernorm_forward_cpu(Index tokens, Index width, const float* x, const float* weight,
                           const float* bias, float* y, float* statistics);

/// dx = d(layernorm)/dx applied to dy, plus `residual` (the gradient that by-passes the norm; may
/// be null). All [tokens, width]; dx must not overlap the inputs.
template <simd::Isa>
void layernorm_backward_cpu(Index tokens, Index width, const float* x, const float* weight,
                            const float* statistics, const float* dy, const float* residual,
                            float* dx);

/// dweight[width] (+)= sum over tokens of dy * normalised x; dbias[width] (+)= sum of dy.
template <simd::Isa>
void layernorm_backward_weight_cpu(Index tokens, Index width, const float* x,
                                   const float* statistics, const float* dy, bool accumulate,
                                   float* dweight, float* dbias);

}  // namespace dos::codelets

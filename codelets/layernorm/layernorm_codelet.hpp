// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/by_type.hpp"
#include "codelets/matrix/refs.hpp"
#include "rt/submitter.hpp"

/// Layer normalisation of [tokens, width] activations; contract of the buffers in layernorm.hpp.
namespace dos::codelets {

const rt::Codelet& layernorm_forward_codelet(DType type);
const rt::Codelet& layernorm_backward_codelet(DType type);
const rt::Codelet& layernorm_backward_weight_codelet(const GradientTypes& types);

/// Learned scale and shift, or their gradients.
struct NormRef {
  SliceRef weight;
  SliceRef bias;
};

struct NormShape {
  Index tokens;
  Index width;
};

/// y = layernorm(x); statistics[tokens, 2] keeps mean and 1/deviation. weight and bias share a
/// handle.
void submit_layernorm_forward(rt::Submitter& submitter, const NormShape& shape, const rt::Handle& x,
                              const NormRef& norm, const rt::Handle& y,
                              const rt::Handle& statistics, const rt::TaskOptions& options);

/// dx = residual + gradient of layernorm applied to dy.
void submit_layernorm_backward(rt::Submitter& submitter, const NormShape& shape,
                               const rt::Handle& x, const NormRef& norm,
                               const rt::Handle& statistics, const rt::Handle& dy,
                               const rt::Handle& residual, const rt::Handle& dx,
                               const rt::TaskOptions& options);

/// The same without residual: the last norm of the model, whose input gradient has no second
/// source.
void submit_layernorm_backward_last(rt::Submitter& submitter, const NormShape& shape,
                                    const rt::Handle& x, const NormRef& norm,
                                    const rt::Handle& statistics, const rt::Handle& dy,
                                    const rt::Handle& dx, const rt::TaskOptions& options);
const rt::Codelet& layernorm_backward_last_codelet(DType type);

/// Gradients of scale and shift, (+)=.
void submit_layernorm_backward_weight(rt::Submitter& submitter, const NormShape& shape,
                                      const rt::Handle& x, const rt::Handle& statistics,
                                      const rt::Handle& dy, bool accumulate,
                                      const NormRef& gradient, const rt::TaskOptions& options);

}  // namespace dos::codelets

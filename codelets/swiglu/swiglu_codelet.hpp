// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/swiglu/swiglu.hpp"
#include "rt/submitter.hpp"

/// SwiGLU of the fused projections of a feed-forward layer; contract of the buffers in swiglu.hpp.
/// Buffers of other sizes than the shape's are a broken contract (dos::require).
namespace dos::codelets {

const rt::Codelet& swiglu_forward_codelet(DType type);
const rt::Codelet& swiglu_backward_codelet(DType type);

/// out[tokens, hidden] = silu(gate) * up of x[tokens, 2 * hidden], whose rows hold gate, then up.
void submit_swiglu_forward(rt::Submitter& submitter, const SwigluShape& shape, const rt::Handle& x,
                           const rt::Handle& out, const rt::TaskOptions& options);

/// dx[tokens, 2 * hidden] = gradients of gate, then of up, from x and dout[tokens, hidden].
void submit_swiglu_backward(rt::Submitter& submitter, const SwigluShape& shape, const rt::Handle& x,
                            const rt::Handle& dout, const rt::Handle& dx,
                            const rt::TaskOptions& options);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "rt/submitter.hpp"

namespace dos::codelets {

/// For elements of the given type, f32 or bf16; so are the codelets below and their neighbours'.
const rt::Codelet& gelu_forward_codelet(DType type);
const rt::Codelet& gelu_backward_codelet(DType type);

/// y = gelu(x) over the whole of two buffers of one size and type.
void submit_gelu_forward(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& y,
                         const rt::TaskOptions& options);

/// dy *= gelu'(x), in place: dy becomes dx.
void submit_gelu_backward(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& dy,
                          const rt::TaskOptions& options);

}  // namespace dos::codelets

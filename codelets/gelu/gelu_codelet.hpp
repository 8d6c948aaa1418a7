// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "rt/submitter.hpp"

namespace dos::codelets {

const rt::Codelet& gelu_forward_codelet();
const rt::Codelet& gelu_backward_codelet();

/// y = gelu(x) over the whole of two buffers of one size.
void submit_gelu_forward(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& y,
                         const rt::TaskOptions& options);

/// dy *= gelu'(x), in place: dy becomes dx.
void submit_gelu_backward(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& dy,
                          const rt::TaskOptions& options);

}  // namespace dos::codelets

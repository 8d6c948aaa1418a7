// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/attention/attention.hpp"
#include "rt/submitter.hpp"

/// Causal attention of one lane; layout of the buffers in attention.hpp.
namespace dos::codelets {

/// FP32 elements of the work space of one task over a lane of such sequences, whatever worker runs
/// it. CUDA workers (`on_cuda`: there are some) need none for heads of at most kLargestTiledHead
/// elements; for larger ones the scores of some heads, which then grow with the square of the
/// tokens.
Index attention_task_workspace(const AttentionShape& shape, DType type, bool on_cuda);

const rt::Codelet& attention_forward_codelet(DType type);
const rt::Codelet& attention_backward_codelet(DType type);

void submit_attention_forward(rt::Submitter& submitter, const AttentionShape& shape,
                              const rt::Handle& qkv, const rt::Handle& out,
                              const rt::Handle& logsumexp, const rt::Handle& workspace,
                              const rt::TaskOptions& options);

void submit_attention_backward(rt::Submitter& submitter, const AttentionShape& shape,
                               const rt::Handle& qkv, const rt::Handle& out,
                               const rt::Handle& logsumexp, const rt::Handle& dout,
                               const rt::Handle& dqkv, const rt::Handle& workspace,
                               const rt::TaskOptions& options);

}  // namespace dos::codelets

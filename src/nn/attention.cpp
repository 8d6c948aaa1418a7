// SPDX-License-Identifier: Apache-2.0
#include "nn/attention.hpp"

#include <utility>

namespace dos::nn {

Index attention_workspace(Index context, Index heads, Index head_size, DType type, bool on_cuda) {
  return codelets::attention_task_workspace(
      {.sequences = 1, .tokens = context, .heads = heads, .head_size = head_size}, type, on_cuda);
}

Attention::Attention(std::string name, const rt::Handle& workspace)
    : name_(std::move(name)), workspace_(workspace) {}

void Attention::forward(rt::Submitter& submitter, const codelets::AttentionShape& shape,
                        const rt::Handle& qkv, const rt::Handle& out, const rt::Handle& logsumexp,
                        const Urgency& urgency) const {
  codelets::submit_attention_forward(submitter, shape, qkv, out, logsumexp, workspace_,
                                     {.priority = urgency.path, .label = name_.c_str()});
}

void Attention::backward(rt::Submitter& submitter, const codelets::AttentionShape& shape,
                         const rt::Handle& qkv, const rt::Handle& out, const rt::Handle& logsumexp,
                         const rt::Handle& dout, const rt::Handle& dqkv,
                         const Urgency& urgency) const {
  codelets::submit_attention_backward(submitter, shape, qkv, out, logsumexp, dout, dqkv, workspace_,
                                      {.priority = urgency.path, .label = name_.c_str()});
}

}  // namespace dos::nn

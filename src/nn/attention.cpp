// SPDX-License-Identifier: Apache-2.0
#include "nn/attention.hpp"

#include <utility>

namespace dos::nn {

codelets::AttentionShape attention_shape(const shape::ModelConfig& config, const LaneShape& lane) {
  return {.sequences = lane.sequences,
          .tokens = lane.first + lane.context,
          .heads = config.heads,
          .head_size = config.head_size(),
          .kv_heads = config.kv_heads,
          .window = config.window,
          .first = lane.first};
}

Attention::Attention(std::string name, const rt::Handle& workspace)
    : name_(std::move(name)), workspace_(workspace) {}

void Attention::forward(rt::Submitter& submitter, const codelets::AttentionShape& shape,
                        const rt::Handle& qkv, const rt::Handle& out, const rt::Handle& logsumexp,
                        const Urgency& urgency) const {
  codelets::submit<codelets::AttentionForward>(
      submitter, {.qkv = qkv, .out = out, .logsumexp = logsumexp, .workspace = workspace_}, shape,
      {.priority = urgency.path, .label = name_.c_str()});
}

void Attention::backward(rt::Submitter& submitter, const codelets::AttentionShape& shape,
                         const rt::Handle& qkv, const rt::Handle& out, const rt::Handle& logsumexp,
                         const rt::Handle& dout, const rt::Handle& dqkv,
                         const Urgency& urgency) const {
  codelets::submit<codelets::AttentionBackward>(submitter,
                                                {.qkv = qkv,
                                                 .out = out,
                                                 .logsumexp = logsumexp,
                                                 .dout = dout,
                                                 .dqkv = dqkv,
                                                 .workspace = workspace_},
                                                shape,
                                                {.priority = urgency.path, .label = name_.c_str()});
}

}  // namespace dos::nn

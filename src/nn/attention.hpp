// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/attention/attention_codelet.hpp"
#include "nn/lane_shape.hpp"
#include "nn/urgency.hpp"
#include "shape/model_config.hpp"

namespace dos::nn {

/// Attention of a model over a lane.
codelets::AttentionShape attention_shape(const shape::ModelConfig& config, const LaneShape& lane);

/// Causal multi-head attention between its two projections; it has no parameters of its own.
class Attention {
 public:
  Attention(std::string name, const rt::Handle& workspace);

  void forward(rt::Submitter& submitter, const codelets::AttentionShape& shape,
               const rt::Handle& qkv, const rt::Handle& out, const rt::Handle& logsumexp,
               const Urgency& urgency) const;

  void backward(rt::Submitter& submitter, const codelets::AttentionShape& shape,
                const rt::Handle& qkv, const rt::Handle& out, const rt::Handle& logsumexp,
                const rt::Handle& dout, const rt::Handle& dqkv, const Urgency& urgency) const;

 private:
  std::string name_;
  const rt::Handle& workspace_;
};

}  // namespace dos::nn

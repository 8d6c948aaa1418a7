// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "models/gpt2/lane.hpp"
#include "nn/attention.hpp"
#include "nn/layernorm.hpp"
#include "nn/linear.hpp"
#include "nn/mlp.hpp"

namespace dos::models::gpt2 {

/// One transformer block: x += projection(attention(norm1(x))); x += mlp(norm2(x)).
class Block {
 public:
  Block(const tensor::ParameterSet& set, const ModelConfig& config, Index layer,
        const rt::Handle& workspace);

  /// From the block's input in the residual stream to its output. Without an output only `kept` is
  /// filled.
  void forward(rt::Submitter& submitter, const Lane& lane, const rt::Handle& input,
               const BlockActivations& kept, const rt::Handle* output,
               const nn::Urgency& urgency) const;

  /// From d_output to gradients.input, and the gradients of the block's parameters.
  void backward(rt::Submitter& submitter, const Lane& lane, const rt::Handle& input,
                const BlockActivations& kept, const rt::Handle& d_output,
                const BlockGradients& gradients, bool accumulate) const;

 private:
  [[nodiscard]] codelets::AttentionShape attention_shape(const Lane& lane) const;

  ModelConfig config_;
  Index depth_;
  nn::LayerNorm norm1_;
  nn::Linear qkv_;
  nn::Attention attention_;
  nn::Linear projection_;
  nn::LayerNorm norm2_;
  nn::Mlp mlp_;
};

}  // namespace dos::models::gpt2

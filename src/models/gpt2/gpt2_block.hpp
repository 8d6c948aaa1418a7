// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/block.hpp"
#include "nn/attention.hpp"
#include "nn/layernorm.hpp"
#include "nn/linear.hpp"
#include "nn/mlp.hpp"
#include "shape/model_config.hpp"

namespace dos::models::gpt2 {

/// x += projection(attention(norm1(x))); x += mlp(norm2(x)). Its buffers: src/shape/gpt2_shape.cpp.
class Gpt2Block final : public Block {
 public:
  Gpt2Block(const tensor::ParameterSet& set, const shape::ModelConfig& config, Index layer,
            const rt::Handle& workspace);

  void forward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& input,
               const BlockBuffers& kept, const rt::Handle* output,
               const nn::Urgency& urgency) const override;
  void refill(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& input,
              const BlockBuffers& kept, const nn::Urgency& urgency) const override;
  void backward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& input,
                const BlockBuffers& kept, const rt::Handle& d_output, const BlockBuffers& gradients,
                bool accumulate, const nn::Urgency& urgency) const override;

 private:
  shape::ModelConfig config_;
  nn::LayerNorm norm1_;
  nn::Linear qkv_;
  nn::Attention attention_;
  nn::Linear projection_;
  nn::LayerNorm norm2_;
  nn::Mlp mlp_;
};

}  // namespace dos::models::gpt2

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/block.hpp"
#include "nn/attention.hpp"
#include "nn/gated_mlp.hpp"
#include "nn/linear.hpp"
#include "nn/rmsnorm.hpp"
#include "nn/rotary.hpp"
#include "shape/model_config.hpp"

namespace dos::models::llama {

/// x += projection(attention(rotary(qkv(norm1(x))))); x += mlp(norm2(x)). Its buffers:
/// src/shape/llama_shape.cpp.
class LlamaBlock final : public Block {
 public:
  LlamaBlock(const tensor::ParameterSet& set, const shape::ModelConfig& config, Index layer,
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
  nn::RmsNorm norm1_;
  nn::Linear qkv_;
  std::optional<nn::HeadNorm> head_norm_;
  nn::Rotary rotary_;
  nn::Attention attention_;
  nn::Linear projection_;
  nn::RmsNorm norm2_;
  nn::GatedMlp mlp_;
};

}  // namespace dos::models::llama

// SPDX-License-Identifier: Apache-2.0
#include "models/gpt2/block.hpp"

#include <fmt/format.h>

namespace dos::models::gpt2 {
namespace {

std::string child(Index layer, const char* name) {
  return fmt::format("blocks.{}.{}", layer, name);
}

}  // namespace

Block::Block(const tensor::ParameterSet& set, const ModelConfig& config, Index layer,
             const rt::Handle& workspace)
    : config_(config),
      depth_(layer + 1),
      norm1_(set, child(layer, "norm1")),
      qkv_(set, child(layer, "attention.qkv")),
      attention_(child(layer, "attention"), workspace),
      projection_(set, child(layer, "attention.projection")),
      norm2_(set, child(layer, "norm2")),
      mlp_(set, child(layer, "mlp")) {}

codelets::AttentionShape Block::attention_shape(const Lane& lane) const {
  return {.sequences = lane.sequences,
          .tokens = config_.context,
          .heads = config_.heads,
          .head_size = config_.head_size()};
}

void Block::forward(rt::Submitter& submitter, const Lane& lane, const rt::Handle& input,
                    const BlockActivations& kept, const rt::Handle* output,
                    const nn::Urgency& urgency) const {
  const Index n = lane.tokens_count;
  const codelets::NormShape norm{n, config_.width};
  norm1_.forward(submitter, norm, input, *kept.norm1, *kept.norm1_stats, urgency);
  qkv_.forward(submitter, n, *kept.norm1, *kept.qkv, urgency);
  attention_.forward(submitter, attention_shape(lane), *kept.qkv, *kept.attention, *kept.logsumexp,
                     urgency);
  projection_.forward(submitter, n, *kept.attention, input, *kept.middle, urgency);
  norm2_.forward(submitter, norm, *kept.middle, *kept.norm2, *kept.norm2_stats, urgency);
  mlp_.forward(submitter, n, *kept.norm2, *kept.middle, {*kept.hidden, *kept.activated}, output,
               urgency);
}

void Block::backward(rt::Submitter& submitter, const Lane& lane, const rt::Handle& input,
                     const BlockActivations& kept, const rt::Handle& d_output,
                     const BlockGradients& gradients, bool accumulate) const {
  const Index n = lane.tokens_count;
  const codelets::NormShape norm{n, config_.width};
  const nn::Urgency urgency = nn::backward_urgency(depth_);
  mlp_.backward(submitter, n, *kept.norm2, {*kept.hidden, *kept.activated},
                {d_output, *gradients.hidden, *gradients.norm2}, accumulate, urgency);
  norm2_.backward(submitter, norm, *kept.middle, *kept.norm2_stats,
                  {*gradients.norm2, &d_output, *gradients.middle}, accumulate, urgency);
  projection_.backward(submitter, n, *kept.attention, *gradients.middle, *gradients.attention,
                       accumulate, urgency);
  attention_.backward(submitter, attention_shape(lane), *kept.qkv, *kept.attention, *kept.logsumexp,
                      *gradients.attention, *gradients.qkv, urgency);
  qkv_.backward(submitter, n, *kept.norm1, *gradients.qkv, *gradients.norm1, accumulate, urgency);
  norm1_.backward(submitter, norm, input, *kept.norm1_stats,
                  {*gradients.norm1, gradients.middle.get(), *gradients.input}, accumulate,
                  urgency);
}

}  // namespace dos::models::gpt2

// SPDX-License-Identifier: Apache-2.0
#include "models/gpt2/gpt2_block.hpp"

#include <fmt/format.h>

namespace dos::models::gpt2 {
namespace {

std::string child(Index layer, const char* name) {
  return fmt::format("blocks.{}.{}", layer, name);
}

}  // namespace

Gpt2Block::Gpt2Block(const tensor::ParameterSet& set, const shape::ModelConfig& config, Index layer,
                     const rt::Handle& workspace)
    : config_(config),
      norm1_(set, child(layer, "norm1")),
      qkv_(set, child(layer, "attention.qkv")),
      attention_(child(layer, "attention"), workspace),
      projection_(set, child(layer, "attention.projection")),
      norm2_(set, child(layer, "norm2")),
      mlp_(set, child(layer, "mlp")) {}

void Gpt2Block::forward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& input,
                        const BlockBuffers& kept, const rt::Handle* output,
                        const nn::Urgency& urgency) const {
  const Index n = lane.tokens();
  const codelets::NormShape norm{n, config_.width};
  const rt::Handle& middle = kept["middle"];
  norm1_.forward(submitter, norm, input, kept["norm1"], kept["norm1_stats"], urgency);
  qkv_.forward(submitter, lane, kept["norm1"], kept["qkv"], kept, urgency);
  attention_.forward(submitter, nn::attention_shape(config_, lane), kept["qkv"], kept["attention"],
                     kept["logsumexp"], urgency);
  projection_.forward(submitter, n, kept["attention"], input, middle, kept, urgency);
  norm2_.forward(submitter, norm, middle, kept["norm2"], kept["norm2_stats"], urgency);
  mlp_.forward(submitter, n, kept["norm2"], middle, {kept["hidden"], kept["activated"]}, output,
               kept, urgency);
}

void Gpt2Block::refill(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& input,
                       const BlockBuffers& kept, const nn::Urgency& urgency) const {
  const codelets::NormShape norm{lane.tokens(), config_.width};
  // In the order in which backward needs them.
  mlp_.activate(submitter, lane.tokens(), {kept["hidden"], kept["activated"]}, urgency);
  norm2_.forward(submitter, norm, kept["middle"], kept["norm2"], kept["norm2_stats"], urgency);
  norm1_.forward(submitter, norm, input, kept["norm1"], kept["norm1_stats"], urgency);
}

void Gpt2Block::backward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& input,
                         const BlockBuffers& kept, const rt::Handle& d_output,
                         const BlockBuffers& gradients, bool accumulate,
                         const nn::Urgency& urgency) const {
  const Index n = lane.tokens();
  const codelets::NormShape norm{n, config_.width};
  const rt::Handle& d_middle = gradients["middle"];
  mlp_.backward(submitter, n, kept["norm2"], {kept["hidden"], kept["activated"]}, kept,
                {d_output, gradients["hidden"], gradients["norm2"], gradients}, accumulate,
                urgency);
  norm2_.backward(submitter, norm, kept["middle"], kept["norm2_stats"],
                  {gradients["norm2"], &d_output, d_middle}, accumulate, urgency);
  projection_.backward(submitter, n, kept["attention"], kept,
                       {d_middle, gradients["attention"], gradients}, accumulate, urgency);
  attention_.backward(submitter, nn::attention_shape(config_, lane), kept["qkv"], kept["attention"],
                      kept["logsumexp"], gradients["attention"], gradients["qkv"], urgency);
  qkv_.backward(submitter, n, kept["norm1"], kept,
                {gradients["qkv"], gradients["norm1"], gradients}, accumulate, urgency);
  norm1_.backward(submitter, norm, input, kept["norm1_stats"],
                  {gradients["norm1"], &d_middle, gradients[kInputGradient]}, accumulate, urgency);
}

}  // namespace dos::models::gpt2

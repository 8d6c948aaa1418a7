// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include "models/family.hpp"
#include "nn/embedding.hpp"
#include "nn/layernorm.hpp"
#include "nn/mlp.hpp"
#include "shape/specs.hpp"

/// The worked example of docs/adding/model.md: blocks without attention.
namespace dos::test::toy {

// Sizes: parameters by name, in the order of forward, and what a block keeps.
inline std::vector<shape::ParameterSpec> parameters(const shape::ModelConfig& config) {
  shape::Specs specs;
  specs.table("token_embedding", config.vocabulary, config.width);
  specs.table("position_embedding", config.context, config.width);
  for (Index layer = 0; layer < config.layers; ++layer) {
    const std::string block = fmt::format("blocks.{}", layer);
    specs.next_depth();
    specs.norm(block + ".norm", config.width);
    specs.linear(block + ".mlp.up", config.ffn, config.width);
    specs.linear(block + ".mlp.down", config.width, config.ffn,
                 shape::residual_deviation(config.layers));
  }
  specs.next_depth();
  specs.norm("final_norm", config.width);
  specs.matrix("head", config.vocabulary, config.width);
  return specs.take();
}

inline shape::BlockShape block(const shape::ModelConfig& config) {
  return {.kept = {{"norm", config.width, /*is_wide=*/false, /*is_cheap=*/true},
                   {"norm_stats", 2, /*is_wide=*/true, /*is_cheap=*/true},
                   {"hidden", config.ffn},
                   {"activated", config.ffn, /*is_wide=*/false, /*is_cheap=*/true}},
          .gradients = {{"hidden", config.ffn}, {"norm", config.width}, {"input", config.width}},
          .forward_tasks = 4,
          .recompute_tasks = 3,
          .selective_tasks = 2,
          .backward_tasks = 7};
}

inline constexpr shape::Family kShape{.name = "toy",
                                      .own_parameters = &parameters,
                                      .own_block = &block,
                                      .head = "head.weight",
                                      .norm_statistics = 2,
                                      .validate = nullptr};

// Tasks: x += mlp(norm(x)).
class ToyBlock final : public models::Block {
 public:
  ToyBlock(const tensor::ParameterSet& set, const shape::ModelConfig& config,
           const std::string& name)
      : width_(config.width), norm_(set, name + ".norm"), mlp_(set, name + ".mlp") {}

  void forward(rt::Submitter& submitter, const models::LaneShape& lane, const rt::Handle& input,
               const models::BlockBuffers& kept, const rt::Handle* output,
               const nn::Urgency& urgency) const override {
    norm_.forward(submitter, {lane.tokens(), width_}, input, kept["norm"], kept["norm_stats"],
                  urgency);
    mlp_.forward(submitter, lane.tokens(), kept["norm"], input, {kept["hidden"], kept["activated"]},
                 output, kept, urgency);
  }

  void refill(rt::Submitter& submitter, const models::LaneShape& lane, const rt::Handle& input,
              const models::BlockBuffers& kept, const nn::Urgency& urgency) const override {
    mlp_.activate(submitter, lane.tokens(), {kept["hidden"], kept["activated"]}, urgency);
    norm_.forward(submitter, {lane.tokens(), width_}, input, kept["norm"], kept["norm_stats"],
                  urgency);
  }

  void backward(rt::Submitter& submitter, const models::LaneShape& lane, const rt::Handle& input,
                const models::BlockBuffers& kept, const rt::Handle& d_output,
                const models::BlockBuffers& gradients, bool accumulate,
                const nn::Urgency& urgency) const override {
    mlp_.backward(submitter, lane.tokens(), kept["norm"], {kept["hidden"], kept["activated"]}, kept,
                  {d_output, gradients["hidden"], gradients["norm"], gradients}, accumulate,
                  urgency);
    norm_.backward(submitter, {lane.tokens(), width_}, input, kept["norm_stats"],
                   {gradients["norm"], &d_output, gradients["input"]}, accumulate, urgency);
  }

 private:
  Index width_;
  nn::LayerNorm norm_;
  nn::Mlp mlp_;
};

inline models::Parts parts(const tensor::ParameterSet& set, const shape::ModelConfig& config,
                           const rt::Handle& /*workspace*/) {
  models::Parts parts;
  parts.stem = std::make_unique<nn::Embedding>(set, "token_embedding", "position_embedding",
                                               nn::Head::kOfItsOwn);
  for (Index layer = 0; layer < config.layers; ++layer)
    parts.blocks.push_back(
        std::make_unique<ToyBlock>(set, config, fmt::format("blocks.{}", layer)));
  parts.norm = std::make_unique<nn::LayerNorm>(set, "final_norm");
  return parts;
}

inline constexpr models::Family kFamily{.shape = kShape, .parts = &parts};

}  // namespace dos::test::toy

// SPDX-License-Identifier: Apache-2.0
#include "models/gpt2/gpt2.hpp"

#include "models/gpt2/gpt2_block.hpp"
#include "nn/embedding.hpp"

namespace dos::models::gpt2 {
namespace {

Parts make_parts(const tensor::ParameterSet& set, const shape::ModelConfig& config,
                 const rt::Handle& workspace) {
  Parts parts;
  parts.stem = std::make_unique<nn::Embedding>(set, "token_embedding", "position_embedding",
                                               nn::Head::kTied);
  for (Index layer = 0; layer < config.layers; ++layer)
    parts.blocks.push_back(std::make_unique<Gpt2Block>(set, config, layer, workspace));
  parts.norm = std::make_unique<nn::LayerNorm>(set, "final_norm");
  return parts;
}

}  // namespace

const Family& family() {
  static const Family family{.shape = shape::gpt2(), .parts = &make_parts};
  return family;
}

}  // namespace dos::models::gpt2

// SPDX-License-Identifier: Apache-2.0
#include "models/llama/llama.hpp"

#include "models/llama/llama_block.hpp"
#include "nn/embedding.hpp"

namespace dos::models::llama {
namespace {

Parts make_parts(const tensor::ParameterSet& set, const shape::ModelConfig& config,
                 const rt::Handle& workspace) {
  Parts parts;
  parts.stem = std::make_unique<nn::TokenEmbedding>(
      set, "token_embedding", config.tied_head ? nn::Head::kTied : nn::Head::kOfItsOwn);
  for (Index layer = 0; layer < config.layers; ++layer)
    parts.blocks.push_back(std::make_unique<LlamaBlock>(set, config, layer, workspace));
  parts.norm = std::make_unique<nn::RmsNorm>(set, "final_norm", config.norm_epsilon);
  return parts;
}

}  // namespace

const Family& family() {
  static const Family family{.shape = shape::llama(), .parts = &make_parts};
  return family;
}

}  // namespace dos::models::llama

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/error.hpp"
#include "shape/family_shape.hpp"
#include "shape/specs.hpp"

namespace dos::shape {
namespace {

/// Elements of a head that rotary embeddings have room for.
constexpr Index kLargestHead = 256;

void add_attention(const ModelConfig& config, const std::string& name, Specs& specs) {
  const Index width = config.width;
  const std::vector<Index> parts{config.attention_width(), config.kv_width(), config.kv_width()};
  specs.matrix(name + ".qkv", config.qkv_width(), width);
  specs.parts(parts);
  if (config.qkv_bias) {
    specs.bias(name + ".qkv", config.qkv_width());
    specs.parts(parts);
  }
  if (config.qk_norm) {
    specs.scale(name + ".head_norm", 2 * config.head_size());
    specs.parts({config.head_size(), config.head_size()});
  }
  specs.matrix(name + ".projection", width, config.attention_width(),
               residual_deviation(config.layers));
}

std::vector<ParameterSpec> llama_parameters(const ModelConfig& config) {
  const Index width = config.width;
  Specs specs;
  specs.table("token_embedding", config.vocabulary, width);
  for (Index layer = 0; layer < config.layers; ++layer) {
    const std::string block = fmt::format("blocks.{}", layer);
    specs.next_depth();
    specs.scale(block + ".norm1", width);
    add_attention(config, block + ".attention", specs);
    specs.scale(block + ".norm2", width);
    specs.matrix(block + ".mlp.gate_up", 2 * config.ffn, width);
    specs.parts({config.ffn, config.ffn});
    specs.matrix(block + ".mlp.down", width, config.ffn, residual_deviation(config.layers));
  }
  specs.next_depth();
  specs.scale("final_norm", width);
  if (!config.tied_head) specs.matrix("head", config.vocabulary, width);
  return specs.take();
}

BlockShape llama_block(const ModelConfig& config) {
  const Index width = config.width;
  const Index attention = config.attention_width();
  const Index qkv = config.qkv_width();
  BlockShape block{.kept = {{"norm1", width, /*is_wide=*/false, /*is_cheap=*/true},
                            {"norm1_stats", 1, /*is_wide=*/true, /*is_cheap=*/true},
                            {"qkv", qkv},  // queries and keys rotated
                            {"attention", attention},
                            {"logsumexp", config.heads, /*is_wide=*/true},
                            {"middle", width},
                            {"norm2", width, /*is_wide=*/false, /*is_cheap=*/true},
                            {"norm2_stats", 1, /*is_wide=*/true, /*is_cheap=*/true},
                            {"hidden", 2 * config.ffn},
                            {"activated", config.ffn, /*is_wide=*/false, /*is_cheap=*/true}},
                   .gradients = {{"hidden", 2 * config.ffn},
                                 {"activated", config.ffn},
                                 {"norm2", width},
                                 {"middle", width},
                                 {"attention", attention},
                                 {"qkv", qkv},
                                 {"norm1", width},
                                 {"input", width}},
                   .cached = "qkv",
                   .forward_tasks = 9,
                   .recompute_tasks = 8,
                   .selective_tasks = 3,
                   .backward_tasks = config.qkv_bias ? 12 : 11};
  if (config.qk_norm) {
    const Index heads = config.heads + config.key_heads();
    block.kept.push_back({"heads", heads * config.head_size()});  // before their norm
    block.kept.push_back({"heads_stats", heads, /*is_wide=*/true});
    ++block.forward_tasks;
    ++block.recompute_tasks;
    ++block.backward_tasks;
  }
  return block;
}

void validate_llama(const ModelConfig& config) {
  expect(config.positions == 0,
         "model.positions = {}: the family llama has no table of positions: leave it 0",
         config.positions);
  expect(config.ffn > 0, "model.ffn must be at least 1, got {}", config.ffn);
  expect(config.head_size() % 2 == 0 && config.head_size() <= kLargestHead,
         "model.head_dim = {} must be even, as its elements turn in pairs, and at most {}",
         config.head_size(), kLargestHead);
}

}  // namespace

const Family& llama() {
  static constexpr Family family{.name = "llama",
                                 .own_parameters = &llama_parameters,
                                 .own_block = &llama_block,
                                 .head = "head.weight",
                                 .norm_statistics = 1,
                                 .validate = &validate_llama};
  return family;
}

}  // namespace dos::shape

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/error.hpp"
#include "shape/family_shape.hpp"
#include "shape/specs.hpp"

namespace dos::shape {
namespace {

std::vector<ParameterSpec> gpt2_parameters(const ModelConfig& config) {
  const Index width = config.width;
  const float residual = residual_deviation(config.layers);
  Specs specs;
  specs.table("token_embedding", config.vocabulary, width);
  specs.table("position_embedding", config.position_rows(), width);
  for (Index layer = 0; layer < config.layers; ++layer) {
    const std::string block = fmt::format("blocks.{}", layer);
    specs.next_depth();
    specs.norm(block + ".norm1", width);
    specs.linear(block + ".attention.qkv", 3 * width, width);
    specs.linear(block + ".attention.projection", width, width, residual);
    specs.norm(block + ".norm2", width);
    specs.linear(block + ".mlp.up", 4 * width, width);
    specs.linear(block + ".mlp.down", width, 4 * width, residual);
  }
  specs.next_depth();
  specs.norm("final_norm", width);
  return specs.take();
}

BlockShape gpt2_block(const ModelConfig& config) {
  const Index width = config.width;
  return {.kept = {{"norm1", width, /*is_wide=*/false, /*is_cheap=*/true},
                   {"norm1_stats", 2, /*is_wide=*/true, /*is_cheap=*/true},
                   {"qkv", 3 * width},
                   {"attention", width},
                   {"logsumexp", config.heads, /*is_wide=*/true},
                   {"middle", width},  // the residual stream after attention
                   {"norm2", width, /*is_wide=*/false, /*is_cheap=*/true},
                   {"norm2_stats", 2, /*is_wide=*/true, /*is_cheap=*/true},
                   {"hidden", 4 * width},                                            // before GELU
                   {"activated", 4 * width, /*is_wide=*/false, /*is_cheap=*/true}},  // after GELU
          .gradients = {{"hidden", 4 * width},
                        {"norm2", width},
                        {"middle", width},
                        {"attention", width},
                        {"qkv", 3 * width},
                        {"norm1", width},
                        {"input", width}},
          .cached = "qkv",
          .forward_tasks = 8,
          .recompute_tasks = 7,
          .selective_tasks = 3,
          .backward_tasks = 14};
}

/// The first key that differs, with its value.
std::string first_choice(const ModelConfig& config, const ModelConfig& open) {
  if (config.head_dim != open.head_dim) return fmt::format("head_dim = {}", config.head_dim);
  if (config.rope_theta != open.rope_theta)
    return fmt::format("rope_theta = {}", config.rope_theta);
  if (config.rope_scaling != open.rope_scaling)
    return fmt::format("rope_factor = {}", config.rope_scaling.factor);
  if (config.norm_epsilon != open.norm_epsilon)
    return fmt::format("norm_eps = {}", config.norm_epsilon);
  if (config.window != open.window) return fmt::format("window = {}", config.window);
  if (config.tied_head) return "tied_head";
  return config.qkv_bias ? "qkv_bias" : "qk_norm";
}

void validate_gpt2(const ModelConfig& config) {
  expect(config.kv_heads == 0 || config.kv_heads == config.heads,
         "model.kv_heads = {}: heads of GPT-2 have keys and values of their own: leave it 0",
         config.kv_heads);
  expect(config.ffn == 0 || config.ffn == 4 * config.width,
         "model.ffn = {}: the MLP of GPT-2 has four times the width, {}: leave it 0", config.ffn,
         4 * config.width);
  expect(config.positions == 0 || config.positions >= config.context,
         "model.context = {}: the model's table has {} positions (model.positions): lower it",
         config.context, config.positions);
  ModelConfig open = config;
  open.head_dim = 0;
  open.rope_theta = ModelConfig().rope_theta;
  open.rope_scaling = {};
  open.norm_epsilon = ModelConfig().norm_epsilon;
  open.window = 0;
  open.tied_head = open.qkv_bias = open.qk_norm = false;
  expect(open == config,
         "model.{}: GPT-2 leaves it no choice: leave it out, or use a preset of the family llama",
         first_choice(config, open));
}

}  // namespace

const Family& gpt2() {
  static constexpr Family family{.name = "gpt2",
                                 .own_parameters = &gpt2_parameters,
                                 .own_block = &gpt2_block,
                                 .head = "token_embedding.weight",
                                 .norm_statistics = 2,
                                 .validate = &validate_gpt2,
                                 .has_position_table = true};
  return family;
}

}  // namespace dos::shape

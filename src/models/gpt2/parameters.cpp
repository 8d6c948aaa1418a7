// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "models/gpt2/gpt2.hpp"

namespace dos::models::gpt2 {
namespace {

constexpr float kDeviation = 0.02F;

/// Collects specs in order.
class Specs {
 public:
  void matrix(const std::string& name, Index rows, Index columns, float deviation) {
    specs_.push_back(
        {name + ".weight", rows, columns, {.deviation = deviation, .constant = 0}, depth_});
  }
  void linear(const std::string& name, Index out, Index in, float deviation) {
    matrix(name, out, in, deviation);
    vector(name + ".bias", out, 0);
  }
  void norm(const std::string& name, Index width) {
    vector(name + ".weight", width, 1);
    vector(name + ".bias", width, 0);
  }
  void next_depth() { ++depth_; }
  std::vector<tensor::ParameterSpec> take() { return std::move(specs_); }

 private:
  void vector(const std::string& name, Index count, float value) {
    specs_.push_back({name, 0, count, {.deviation = 0, .constant = value}, depth_});
  }
  std::vector<tensor::ParameterSpec> specs_;
  Index depth_ = 0;
};

}  // namespace

std::vector<tensor::ParameterSpec> parameters(const ModelConfig& config) {
  const Index width = config.width;
  // Each layer adds two projections to the residual stream: keep its variance independent of depth.
  const float residual_deviation = kDeviation / std::sqrt(2.0F * static_cast<float>(config.layers));
  Specs specs;
  specs.matrix("token_embedding", config.vocabulary, width, kDeviation);
  specs.matrix("position_embedding", config.context, width, kDeviation);
  for (Index layer = 0; layer < config.layers; ++layer) {
    const std::string block = fmt::format("blocks.{}", layer);
    specs.next_depth();
    specs.norm(block + ".norm1", width);
    specs.linear(block + ".attention.qkv", 3 * width, width, kDeviation);
    specs.linear(block + ".attention.projection", width, width, residual_deviation);
    specs.norm(block + ".norm2", width);
    specs.linear(block + ".mlp.up", 4 * width, width, kDeviation);
    specs.linear(block + ".mlp.down", width, 4 * width, residual_deviation);
  }
  specs.next_depth();
  specs.norm("final_norm", width);
  return specs.take();
}

}  // namespace dos::models::gpt2

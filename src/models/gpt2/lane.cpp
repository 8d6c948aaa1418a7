// SPDX-License-Identifier: Apache-2.0
#include "models/gpt2/lane.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/activation_count.hpp"
#include "base/logits_stride.hpp"
#include "models/gpt2/gpt2.hpp"
#include "nn/attention.hpp"

namespace dos::models::gpt2 {
namespace {

/// Registers the buffers of one lane under one name prefix.
class LaneBuilder {
 public:
  LaneBuilder(rt::Session& session, Index lane, Index tokens, DType type)
      : session_(session), prefix_(fmt::format("lane{}", lane)), tokens_(tokens), type_(type) {}

  void set_scope(std::string scope) { scope_ = std::move(scope); }

  /// [tokens, width] activations.
  [[nodiscard]] HandlePtr activation(const char* name, Index width) const {
    return make(name, type_, tokens_ * width, rt::MemoryCategory::kActivations);
  }
  /// [tokens, width] in FP32 whatever the activations are: statistics, logarithms of sums.
  [[nodiscard]] HandlePtr wide(const char* name, Index width) const {
    return make(name, DType::kF32, tokens_ * width, rt::MemoryCategory::kActivations);
  }
  [[nodiscard]] HandlePtr make(const char* name, DType type, Index count,
                               rt::MemoryCategory category) const {
    const std::string full = fmt::format("{}.{}{}", prefix_, scope_, name);
    return std::make_unique<rt::Handle>(
        session_, rt::HandleSpec{.name = full, .type = type, .count = count, .category = category});
  }

 private:
  rt::Session& session_;
  std::string prefix_;
  std::string scope_;
  Index tokens_;
  DType type_;
};

BlockActivations make_activations(const LaneBuilder& build, const ModelConfig& config) {
  const Index width = config.width;
  BlockActivations block;
  block.norm1 = build.activation("norm1", width);
  block.norm1_stats = build.wide("norm1_stats", 2);
  block.qkv = build.activation("qkv", 3 * width);
  block.attention = build.activation("attention", width);
  block.logsumexp = build.wide("logsumexp", config.heads);
  block.middle = build.activation("middle", width);
  block.norm2 = build.activation("norm2", width);
  block.norm2_stats = build.wide("norm2_stats", 2);
  block.hidden = build.activation("hidden", 4 * width);
  block.activated = build.activation("activated", 4 * width);
  return block;
}

BlockGradients make_gradients(const LaneBuilder& build, const ModelConfig& config) {
  const Index width = config.width;
  BlockGradients block;
  block.hidden = build.activation("hidden", 4 * width);
  block.norm2 = build.activation("norm2", width);
  block.middle = build.activation("middle", width);
  block.attention = build.activation("attention", width);
  block.qkv = build.activation("qkv", 3 * width);
  block.norm1 = build.activation("norm1", width);
  block.input = build.activation("input", width);
  return block;
}

/// Numbers in the logits buffer of a lane with so many tokens.
Index logits_count(const ModelConfig& config, const RunShape& shape, Index tokens) {
  return std::min(tokens, shape.logits_rows) * logits_stride(config.vocabulary);
}

}  // namespace

Index activation_sets(const ModelConfig& config, const RunShape& shape) {
  return shape.training ? dos::activation_sets(config.layers, shape.recompute) : 1;
}

Index gradient_sets(const ModelConfig& config, const RunShape& shape) {
  return shape.training ? dos::gradient_sets(config.layers) : 0;
}

Lane make_lane(rt::Session& session, const ModelConfig& config, const RunShape& shape,
               Index index) {
  Lane lane;
  lane.sequences = shape.lane_sequences(index);
  lane.tokens_count = lane.sequences * config.context;
  LaneBuilder build(session, index, lane.tokens_count, shape.type);
  lane.tokens = build.make("tokens", DType::kI32, lane.sequences * (config.context + 1),
                           rt::MemoryCategory::kData);
  lane.loss = build.make("loss", DType::kF64, 1, rt::MemoryCategory::kData);
  lane.logits = build.make("logits", shape.type, logits_count(config, shape, lane.tokens_count),
                           rt::MemoryCategory::kActivations);
  for (Index block = 0; block <= config.layers; ++block) {
    build.set_scope(fmt::format("stream{}.", block));
    lane.stream.push_back(build.activation("x", config.width));
  }
  build.set_scope("final.");
  lane.final_norm = build.activation("norm", config.width);
  lane.final_norm_stats = build.wide("norm_stats", 2);
  if (shape.training) {
    lane.d_final_norm = build.activation("d_norm", config.width);
    lane.d_stream = build.activation("d_stream", config.width);
  }
  for (Index set = 0; set < activation_sets(config, shape); ++set) {
    build.set_scope(fmt::format("activations{}.", set));
    lane.blocks.push_back(make_activations(build, config));
  }
  for (Index set = 0; set < gradient_sets(config, shape); ++set) {
    build.set_scope(fmt::format("gradients{}.", set));
    lane.gradients.push_back(make_gradients(build, config));
  }
  return lane;
}

rt::MemoryBytes buffers(const ModelConfig& config, const RunShape& shape,
                        const WorkerCount& workers) {
  const BlockWidths widths{.layers = config.layers,
                           .width = config.width,
                           .heads = config.heads,
                           .kv_width = config.width,
                           .ffn = 4 * config.width};
  const ActivationCount token = shape.training
                                    ? count_training(widths, shape.recompute)
                                    : count_forward(widths, activation_sets(config, shape));
  rt::MemoryBytes bytes;
  for (Index lane = 0; lane < shape.lanes; ++lane) {
    const Index sequences = shape.lane_sequences(lane);
    const Index tokens = sequences * config.context;
    bytes[rt::MemoryCategory::kActivations] +=
        size_of(shape.type) * (tokens * token.values + logits_count(config, shape, tokens)) +
        size_of(DType::kF32) * tokens * token.wide;
    bytes[rt::MemoryCategory::kData] +=
        size_of(DType::kI32) * sequences * (config.context + 1) + size_of(DType::kF64);
  }
  bytes[rt::MemoryCategory::kWorkspace] =
      size_of(DType::kF32) * workers.all *
      nn::attention_workspace(config.context, config.heads, config.head_size(), shape.type,
                              /*on_cuda=*/workers.cuda > 0);
  return bytes;
}

RunCounts counts(const ModelConfig& config, const RunShape& shape, const tensor::Layout& layout) {
  using Kept = decltype(BlockActivations().all());
  using Gradients = decltype(BlockGradients().all());
  // Tokens, loss, logits, last norm and its statistics; in training their two gradients.
  const Index ends = shape.training ? 7 : 5;
  const Index of_lane = ends + config.layers + 1 +
                        activation_sets(config, shape) * Index{std::tuple_size_v<Kept>} +
                        gradient_sets(config, shape) * Index{std::tuple_size_v<Gradients>};
  RunCounts counts{.buffers = shape.lanes * of_lane + 1};  // and the work space
  // The gradient of a matrix is a task for each piece.
  Index pieces = 0;
  for (const tensor::PlacedParameter& parameter : layout.parameters)
    if (parameter.spec.shape().size() > 1) pieces += std::ssize(tensor::pieces_of(parameter));
  const Index head_pieces = std::ssize(tensor::pieces_of(layout.find("token_embedding.weight")));
  // A block's forward pass has 8 tasks, 7 of them once more with recomputation, its backward pass
  // 14 beside those; tokens, embedding and last norm have 5.
  const Index of_block = 8 + (shape.recompute ? 7 : 0) + 14;
  for (Index lane = 0; lane < shape.lanes; ++lane) {
    const Index tokens = shape.lane_sequences(lane) * config.context;
    const Index chunks = ceil_div(tokens, std::min(tokens, shape.logits_rows));
    counts.tasks += 5 + config.layers * of_block + pieces + chunks * (3 + head_pieces);
  }
  return counts;
}

}  // namespace dos::models::gpt2

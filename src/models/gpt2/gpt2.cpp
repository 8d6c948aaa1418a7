// SPDX-License-Identifier: Apache-2.0
#include "models/gpt2/gpt2.hpp"

#include <utility>

#include "base/error.hpp"
#include "models/gpt2/block.hpp"
#include "models/gpt2/lane.hpp"
#include "nn/embedding.hpp"
#include "nn/layernorm.hpp"
#include "nn/loss_head.hpp"
#include "nn/tokens.hpp"

namespace dos::models::gpt2 {
namespace {

class Gpt2 final : public Model {
 public:
  Gpt2(rt::Session& session, const tensor::ParameterSet& set, const ModelConfig& config,
       const RunShape& shape);

  void train(rt::Submitter& submitter, std::span<const std::int32_t> tokens,
             const MicroBatch& micro_batch) override;
  void evaluate(rt::Submitter& submitter, std::span<const std::int32_t> tokens) override;
  const rt::Handle& predict(rt::Submitter& submitter, std::span<const std::int32_t> tokens,
                            Index position) override;
  [[nodiscard]] std::vector<const rt::Handle*> losses() const override;

 private:
  void load(rt::Submitter& submitter, std::span<const std::int32_t> tokens);
  void forward(rt::Submitter& submitter);
  void backward(rt::Submitter& submitter, const MicroBatch& micro_batch);
  void backward_block(rt::Submitter& submitter, Index layer, const Lane& lane, bool accumulate);
  void release_head(rt::Submitter& submitter, const Lane& lane) const;
  void release_block(rt::Submitter& submitter, Index layer, const Lane& lane) const;
  /// Calls f(lane, number of the lane) for each; what it submits is the lane's.
  template <class F>
  void for_each_lane(rt::Submitter& submitter, F&& f) const;
  [[nodiscard]] nn::LossHead::Lane head_lane(const Lane& lane) const;
  [[nodiscard]] codelets::EmbeddingShape embedding_shape(const Lane& lane) const;
  [[nodiscard]] const BlockActivations& kept(const Lane& lane, Index layer) const;
  [[nodiscard]] Index depths() const { return config_.layers + 1; }

  ModelConfig config_;
  RunShape shape_;
  std::unique_ptr<rt::Handle> workspace_;
  std::vector<Lane> lanes_;
  nn::Embedding embedding_;
  std::vector<Block> blocks_;
  nn::LayerNorm final_norm_;
  nn::LossHead head_;
};

Gpt2::Gpt2(rt::Session& session, const tensor::ParameterSet& set, const ModelConfig& config,
           const RunShape& shape)
    : config_(config),
      shape_(shape),
      workspace_(rt::Handle::scratch(
          session, "attention_workspace", DType::kF32,
          nn::attention_workspace(config.context, config.heads, config.head_size(), shape.type,
                                  /*on_cuda=*/session.cuda_workers() > 0))),
      embedding_(set, "token_embedding", "position_embedding"),
      final_norm_(set, "final_norm"),
      head_(set, "token_embedding") {
  for (Index lane = 0; lane < shape_.lanes; ++lane)
    lanes_.push_back(make_lane(session, config_, shape_, lane));
  for (Index layer = 0; layer < config_.layers; ++layer)
    blocks_.emplace_back(set, config_, layer, *workspace_);
}

template <class F>
void Gpt2::for_each_lane(rt::Submitter& submitter, F&& f) const {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    submitter.set_lane(static_cast<Index>(i));
    f(lanes_[i], i);
  }
  submitter.set_lane(rt::kNoLane);
}

void Gpt2::train(rt::Submitter& submitter, std::span<const std::int32_t> tokens,
                 const MicroBatch& micro_batch) {
  require(shape_.training, "a model built for training");
  const rt::TaskTag tag = submitter.tag();
  submitter.set_phase(rt::Phase::kForward);
  load(submitter, tokens);
  forward(submitter);
  submitter.set_phase(rt::Phase::kBackward);
  backward(submitter, micro_batch);
  submitter.set_tag(tag);
}

void Gpt2::evaluate(rt::Submitter& submitter, std::span<const std::int32_t> tokens) {
  load(submitter, tokens);
  forward(submitter);
  for_each_lane(submitter, [&](const Lane& lane, std::size_t) {
    head_.forward(submitter, head_lane(lane), nn::forward_urgency(depths(), depths()));
  });
}

const rt::Handle& Gpt2::predict(rt::Submitter& submitter, std::span<const std::int32_t> tokens,
                                Index position) {
  require(position >= 0 && position < config_.context, "position inside the context");
  load(submitter, tokens);
  forward(submitter);
  const Lane& lane = lanes_.front();
  head_.project_row(submitter, position, *lane.final_norm, *lane.logits,
                    nn::forward_urgency(depths(), depths()));
  return *lane.logits;
}

std::vector<const rt::Handle*> Gpt2::losses() const {
  std::vector<const rt::Handle*> handles;
  for (const Lane& lane : lanes_) handles.push_back(lane.loss.get());
  return handles;
}

void Gpt2::load(rt::Submitter& submitter, std::span<const std::int32_t> tokens) {
  require(std::ssize(tokens) == shape_.batch * (config_.context + 1), "tokens[batch, context + 1]");
  for (const Lane& lane : lanes_) {
    const auto count = static_cast<std::size_t>(lane.tokens->count());
    nn::load_tokens(submitter, tokens.first(count), *lane.tokens);
    tokens = tokens.subspan(count);
  }
}

void Gpt2::forward(rt::Submitter& submitter) {
  tell(&DepthListener::before_forward, 0);
  for_each_lane(submitter, [&](const Lane& lane, std::size_t) {
    embedding_.forward(submitter, embedding_shape(lane), *lane.tokens, *lane.stream[0],
                       nn::forward_urgency(0, depths()));
  });
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Index depth = static_cast<Index>(layer) + 1;
    tell(&DepthListener::before_forward, depth);
    for_each_lane(submitter, [&](const Lane& lane, std::size_t) {
      blocks_[layer].forward(submitter, lane, *lane.stream[layer],
                             kept(lane, static_cast<Index>(layer)), lane.stream[layer + 1].get(),
                             nn::forward_urgency(depth, depths()));
    });
  }
  tell(&DepthListener::before_forward, depths());
  for_each_lane(submitter, [&](const Lane& lane, std::size_t) {
    final_norm_.forward(submitter, {lane.tokens_count, config_.width}, *lane.stream.back(),
                        *lane.final_norm, *lane.final_norm_stats,
                        nn::forward_urgency(depths(), depths()));
  });
}

void Gpt2::backward(rt::Submitter& submitter, const MicroBatch& micro_batch) {
  const nn::Urgency urgency = nn::backward_urgency(depths());
  tell(&DepthListener::before_backward, depths());
  for_each_lane(submitter, [&](const Lane& lane, std::size_t i) {
    const bool accumulate = !micro_batch.first || i > 0;
    head_.forward_backward(submitter, head_lane(lane), *lane.d_final_norm, micro_batch.loss_scale,
                           accumulate, urgency);
    final_norm_.backward(submitter, {lane.tokens_count, config_.width}, *lane.stream.back(),
                         *lane.final_norm_stats, {*lane.d_final_norm, nullptr, *lane.d_stream},
                         accumulate, urgency);
    release_head(submitter, lane);
  });
  tell(&DepthListener::after_backward, depths());
  for (Index layer = config_.layers - 1; layer >= 0; --layer) {
    tell(&DepthListener::before_backward, layer + 1);
    for_each_lane(submitter, [&](const Lane& lane, std::size_t i) {
      backward_block(submitter, layer, lane, !micro_batch.first || i > 0);
      release_block(submitter, layer, lane);
    });
    tell(&DepthListener::after_backward, layer + 1);
  }
  tell(&DepthListener::before_backward, 0);
  for_each_lane(submitter, [&](const Lane& lane, std::size_t i) {
    embedding_.backward(submitter, embedding_shape(lane), *lane.tokens, *lane.gradients[0].input,
                        !micro_batch.first || i > 0, nn::backward_urgency(0));
  });
  tell(&DepthListener::after_backward, 0);
  for (const Lane& lane : lanes_)
    for (const BlockGradients& gradients : lane.gradients)
      for (const rt::Handle* handle : gradients.all()) submitter.release(*handle);
}

// What is released is dead until the next forward pass writes it. Not so the logits and the
// gradient of the last norm's output, to which tasks add.
void Gpt2::release_head(rt::Submitter& submitter, const Lane& lane) const {
  submitter.release(*lane.final_norm);
  submitter.release(*lane.final_norm_stats);
  submitter.release(*lane.stream.back());
}

void Gpt2::release_block(rt::Submitter& submitter, Index layer, const Lane& lane) const {
  submitter.release(*lane.stream[static_cast<std::size_t>(layer)]);
  if (layer == config_.layers - 1) submitter.release(*lane.d_stream);
  const bool is_needed = layer >= std::ssize(lane.blocks);
  if (is_needed) return;
  for (const rt::Handle* handle : kept(lane, layer).all()) submitter.release(*handle);
}

void Gpt2::backward_block(rt::Submitter& submitter, Index layer, const Lane& lane,
                          bool accumulate) {
  const Block& block = blocks_[static_cast<std::size_t>(layer)];
  const rt::Handle& input = *lane.stream[static_cast<std::size_t>(layer)];
  const auto sets = static_cast<Index>(lane.gradients.size());
  const auto gradients = [&](Index l) -> const BlockGradients& {
    return lane.gradients[static_cast<std::size_t>(l % sets)];
  };
  // The last blocks' activations are still there from forward.
  const bool lost = layer + std::ssize(lane.blocks) < config_.layers;
  if (lost)
    block.forward(submitter, lane, input, kept(lane, layer), nullptr,
                  nn::backward_urgency(layer + 1));
  const bool last = layer == config_.layers - 1;
  const rt::Handle& d_output = last ? *lane.d_stream : *gradients(layer + 1).input;
  block.backward(submitter, lane, input, kept(lane, layer), d_output, gradients(layer), accumulate);
}

nn::LossHead::Lane Gpt2::head_lane(const Lane& lane) const {
  return {.x = *lane.final_norm,
          .tokens = *lane.tokens,
          .logits = *lane.logits,
          .loss = *lane.loss,
          .rows = lane.tokens_count,
          .context = config_.context};
}

codelets::EmbeddingShape Gpt2::embedding_shape(const Lane& lane) const {
  return {.sequences = lane.sequences, .context = config_.context, .width = config_.width};
}

const BlockActivations& Gpt2::kept(const Lane& lane, Index layer) const {
  return lane.blocks[static_cast<std::size_t>(layer % std::ssize(lane.blocks))];
}

}  // namespace

std::unique_ptr<Model> build(rt::Session& session, const tensor::ParameterSet& parameters,
                             const ModelConfig& config, const RunShape& shape) {
  config.validate();
  shape.validate();
  return std::make_unique<Gpt2>(session, parameters, config, shape);
}

}  // namespace dos::models::gpt2

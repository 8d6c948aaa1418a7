// SPDX-License-Identifier: Apache-2.0
#include "models/decoder.hpp"

#include <utility>

#include "base/error.hpp"
#include "models/demand.hpp"
#include "nn/tokens.hpp"
#include "rt/device.hpp"
#include "shape/activation_sets.hpp"

namespace dos::models {
namespace {

const shape::ModelConfig& valid(const shape::ModelConfig& config) {
  shape::validate(config);
  return config;
}

const shape::RunShape& valid(const shape::RunShape& run) {
  run.validate();
  return run;
}

/// The memory that a lane's tasks work in: of its GPU, where GPUs run the model
/// (rt::Submitter::set_lane).
int node_of(Index lane) {
  std::vector<int> nodes;
  for (const rt::Device& device : rt::devices())
    if (device.is_cuda) nodes.push_back(device.node);
  return nodes.empty() ? rt::kHostNode : nodes[static_cast<std::size_t>(lane % std::ssize(nodes))];
}

}  // namespace

Decoder::Decoder(rt::Session& session, const tensor::ParameterSet& set,
                 const shape::ModelConfig& config, const shape::RunShape& run,
                 tensor::ActivationStore* disk)
    : config_(valid(config)),
      run_(valid(run)),
      first_trained_(set.layout().first_trained_depth()),
      sets_(config, {run.training, run.activations, shape::reached_blocks(config, first_trained_)}),
      disk_(disk),
      host_(session),
      workspace_(
          rt::Handle::scratch(session, "attention_workspace", DType::kF32,
                              workspace_count(config, /*on_cuda=*/session.cuda_workers() > 0))),
      head_(set, shape::head_of(config)) {
  const Family& family = find_family(config.architecture);
  for (Index lane = 0; lane < run_.lanes; ++lane)
    lanes_.push_back(make_lane(session, family.shape, config_, run_,
                               shape::reached_blocks(config_, first_trained_), lane,
                               {.disk = disk, .host = &host_, .node = node_of(lane)}));
  if (disk != nullptr) disk->reserve();
  parts_ = family.parts(set, config_, *workspace_);
}

template <class F>
void Decoder::for_each_lane(rt::Submitter& submitter, F&& f) const {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    submitter.set_lane(static_cast<Index>(i));
    f(lanes_[i], i);
  }
  submitter.set_lane(rt::kNoLane);
}

void Decoder::train(rt::Submitter& submitter, std::span<const std::int32_t> tokens,
                    const MicroBatch& micro_batch) {
  require(run_.training, "a model built for training");
  const rt::TaskTag tag = submitter.tag();
  submitter.set_phase(rt::Phase::kForward);
  load(submitter, tokens);
  uses_disk_ = disk_ != nullptr && disk_->is_usable();
  forward(submitter, /*trains=*/true);
  submitter.set_phase(rt::Phase::kBackward);
  backward(submitter, micro_batch);
  submitter.set_tag(tag);
}

void Decoder::evaluate(rt::Submitter& submitter, std::span<const std::int32_t> tokens) {
  load(submitter, tokens);
  forward(submitter, /*trains=*/false);
  for_each_lane(submitter, [&](const Lane& lane, std::size_t) {
    head_.forward(submitter, head_lane(lane), nn::forward_urgency(depths(), depths()));
  });
}

const rt::Handle& Decoder::predict(rt::Submitter& submitter, std::span<const std::int32_t> tokens,
                                   Index position) {
  require(position >= 0 && position < config_.context, "position inside the context");
  load(submitter, tokens);
  forward(submitter, /*trains=*/false);
  const Lane& lane = lanes_.front();
  head_.project_row(submitter, position, *lane.last_norm, *lane.logits,
                    nn::forward_urgency(depths(), depths()));
  return *lane.logits;
}

std::vector<const rt::Handle*> Decoder::losses() const {
  std::vector<const rt::Handle*> handles;
  for (const Lane& lane : lanes_) handles.push_back(lane.loss.get());
  return handles;
}

void Decoder::load(rt::Submitter& submitter, std::span<const std::int32_t> tokens) {
  require(std::ssize(tokens) == run_.batch * (config_.context + 1), "tokens[batch, context + 1]");
  for (const Lane& lane : lanes_) {
    const auto count = static_cast<std::size_t>(lane.tokens->count());
    nn::load_tokens(submitter, tokens.first(count), *lane.tokens);
    tokens = tokens.subspan(count);
  }
}

void Decoder::forward(rt::Submitter& submitter, bool trains) {
  tell(&tensor::ParameterListener::before_forward, 0);
  for_each_lane(submitter, [&](const Lane& lane, std::size_t) {
    parts_.stem->forward(submitter, embedding_shape(lane), *lane.tokens, *lane.stream[0],
                         nn::forward_urgency(0, depths()));
  });
  for (std::size_t layer = 0; layer < parts_.blocks.size(); ++layer) {
    const Index depth = static_cast<Index>(layer) + 1;
    const bool moves = trains && is_moved(static_cast<Index>(layer));
    tell(&tensor::ParameterListener::before_forward, depth);
    for_each_lane(submitter, [&](const Lane& lane, std::size_t) {
      if (trains)
        for (const Lane::Home& each : lane.homes[layer]) host_.set_home(each.slot, *each.buffer);
      parts_.blocks[layer]->forward(
          submitter, lane.shape, *lane.stream[layer], kept(lane, static_cast<Index>(layer)),
          lane.stream[layer + 1].get(), nn::forward_urgency(depth, depths()));
      if (moves)
        for (const Lane::Moved& each : lane.moved[layer])
          each.store->store(each.slot, *each.buffer);
    });
  }
  tell(&tensor::ParameterListener::before_forward, depths());
  for_each_lane(submitter, [&](const Lane& lane, std::size_t) {
    parts_.norm->forward(submitter, {lane.shape.tokens(), config_.width}, *lane.stream.back(),
                         *lane.last_norm, *lane.last_norm_stats,
                         nn::forward_urgency(depths(), depths()));
  });
}

void Decoder::backward(rt::Submitter& submitter, const MicroBatch& micro_batch) {
  const nn::Urgency urgency = nn::backward_urgency(depths());
  tell(&tensor::ParameterListener::before_backward, depths());
  for_each_lane(submitter, [&](const Lane& lane, std::size_t i) {
    const bool accumulate = !micro_batch.first || i > 0;
    head_.forward_backward(submitter, head_lane(lane), *lane.d_last_norm, micro_batch.loss_scale,
                           accumulate, urgency);
    parts_.norm->backward(submitter, {lane.shape.tokens(), config_.width}, *lane.stream.back(),
                          *lane.last_norm_stats, {*lane.d_last_norm, nullptr, *lane.d_stream},
                          accumulate, urgency);
    release_head(submitter, lane);
  });
  tell(&tensor::ParameterListener::after_backward, depths());
  for (Index layer = config_.layers - 1; layer >= 0; --layer) {
    const Index depth = layer + 1;
    const bool is_reached = depth >= first_trained_;
    if (is_reached) tell(&tensor::ParameterListener::before_backward, depth);
    for_each_lane(submitter, [&](const Lane& lane, std::size_t i) {
      if (is_reached) backward_block(submitter, layer, lane, !micro_batch.first || i > 0);
      release_block(submitter, layer, lane);
    });
    if (is_reached) tell(&tensor::ParameterListener::after_backward, depth);
  }
  if (first_trained_ == 0) backward_stem(submitter, micro_batch.first);
  for (const Lane& lane : lanes_)
    for (const BlockBuffers& gradients : lane.gradients) gradients.release(submitter);
}

void Decoder::backward_stem(rt::Submitter& submitter, bool overwrites) {
  tell(&tensor::ParameterListener::before_backward, 0);
  for_each_lane(submitter, [&](const Lane& lane, std::size_t i) {
    parts_.stem->backward(submitter, embedding_shape(lane), *lane.tokens,
                          lane.gradients[0][kInputGradient], !overwrites || i > 0,
                          nn::backward_urgency(0));
  });
  tell(&tensor::ParameterListener::after_backward, 0);
}

// What is released is dead until the next forward pass writes it. Not so the logits and the
// gradient of the last norm's output, to which tasks add.
void Decoder::release_head(rt::Submitter& submitter, const Lane& lane) const {
  submitter.release(*lane.last_norm);
  submitter.release(*lane.last_norm_stats);
  submitter.release(*lane.stream.back());
}

void Decoder::release_block(rt::Submitter& submitter, Index layer, const Lane& lane) const {
  submitter.release(*lane.stream[static_cast<std::size_t>(layer)]);
  const bool is_last = layer == config_.layers - 1;
  if (is_last) submitter.release(*lane.d_stream);
  for (const rt::Handle* dead : lane.dead_after[static_cast<std::size_t>(layer)])
    submitter.release(*dead);
}

void Decoder::backward_block(rt::Submitter& submitter, Index layer, const Lane& lane,
                             bool accumulate) {
  const Block& block = *parts_.blocks[static_cast<std::size_t>(layer)];
  const rt::Handle& input = *lane.stream[static_cast<std::size_t>(layer)];
  const auto sets = static_cast<Index>(lane.gradients.size());
  const auto gradients = [&](Index l) -> const BlockBuffers& {
    return lane.gradients[static_cast<std::size_t>(l % sets)];
  };
  const nn::Urgency urgency = nn::backward_urgency(layer + 1);
  refill(submitter, layer, lane);
  const bool last = layer == config_.layers - 1;
  const rt::Handle& d_output = last ? *lane.d_stream : gradients(layer + 1)[kInputGradient];
  block.backward(submitter, lane.shape, input, kept(lane, layer), d_output, gradients(layer),
                 accumulate, urgency);
}

bool Decoder::is_moved(Index layer) const {
  const shape::Refill refill = sets_.refill(layer);
  return refill == shape::Refill::kHost || (refill == shape::Refill::kDisk && uses_disk_);
}

void Decoder::refill(rt::Submitter& submitter, Index layer, const Lane& lane) {
  const Block& block = *parts_.blocks[static_cast<std::size_t>(layer)];
  const rt::Handle& input = *lane.stream[static_cast<std::size_t>(layer)];
  const nn::Urgency urgency = nn::backward_urgency(layer + 1);
  switch (sets_.refill(layer)) {
    case shape::Refill::kNone:
      return;
    case shape::Refill::kHost:
    case shape::Refill::kDisk:
      if (is_moved(layer)) {
        for (const Lane::Moved& each : lane.moved[static_cast<std::size_t>(layer)])
          each.store->load(each.slot, *each.buffer);
        return block.refill(submitter, lane.shape, input, kept(lane, layer), urgency);
      }
      [[fallthrough]];
    case shape::Refill::kRecompute:
      return block.forward(submitter, lane.shape, input, kept(lane, layer), nullptr, urgency);
    case shape::Refill::kSelective:
      return block.refill(submitter, lane.shape, input, kept(lane, layer), urgency);
  }
}

nn::LossHead::Lane Decoder::head_lane(const Lane& lane) const {
  return {.x = *lane.last_norm,
          .tokens = *lane.tokens,
          .logits = *lane.logits,
          .loss = *lane.loss,
          .rows = lane.shape.tokens(),
          .context = config_.context};
}

codelets::EmbeddingShape Decoder::embedding_shape(const Lane& lane) const {
  return {.sequences = lane.shape.sequences, .context = config_.context, .width = config_.width};
}

const BlockBuffers& Decoder::kept(const Lane& lane, Index layer) const {
  return lane.blocks[static_cast<std::size_t>(layer)];
}

}  // namespace dos::models

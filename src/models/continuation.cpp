// SPDX-License-Identifier: Apache-2.0
#include "models/continuation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "nn/tokens.hpp"

namespace dos::models {
namespace {

const shape::ModelConfig& checked(const shape::ModelConfig& config) {
  shape::validate(config);
  return config;
}

/// What the block's shape says is read by later tokens; null for none.
const shape::Activation* find_cached(const shape::BlockShape& block) {
  if (block.cached == nullptr) return nullptr;
  const auto found =
      std::ranges::find(block.kept, std::string_view(block.cached), &shape::Activation::name);
  require(found != block.kept.end(), "a name of the block's shape");
  return &*found;
}

}  // namespace

Continuation::Continuation(rt::Session& session, const tensor::ParameterSet& set,
                           const shape::ModelConfig& config, const ContinuationShape& shape)
    : config_(checked(config)),
      shape_(shape),
      workspace_(
          rt::Handle::scratch(session, "attention_workspace", DType::kF32,
                              workspace_count(config, /*on_cuda=*/session.cuda_workers() > 0))),
      head_(set, shape::head_of(config)) {
  require(shape.lanes >= 1 && shape.chunk >= 1 && shape.chunk <= config.context,
          "chunks inside the context");
  const Family& family = find_family(config.architecture);
  const shape::BlockShape block = family.shape.block(config);
  if (const shape::Activation* cached = find_cached(block))
    for (Index layer = 0; layer < config.layers; ++layer)
      caches_.push_back(std::make_shared<const rt::Handle>(
          session, rt::HandleSpec{.name = fmt::format("cache{}.{}", layer, cached->name),
                                  .type = cached->is_wide ? DType::kF32 : shape.type,
                                  .count = config.context * cached->width,
                                  .category = MemoryCategory::kActivations}));
  for (Index lane = 0; lane < shape.lanes; ++lane) add_pass(session, shape.chunk);
  if (shape.chunk > 1) add_pass(session, 1);
  parts_ = family.parts(set, config_, *workspace_);
}

void Continuation::add_pass(rt::Session& session, Index tokens) {
  const shape::Family& family = shape::find_family(config_.architecture);
  shape::ModelConfig part = config_;
  part.context = tokens;
  std::vector<Pass>& passes = tokens == shape_.chunk ? chunks_ : steps_;
  Pass pass{.lane = make_lane(session, family, part, shape_.run(), /*reached=*/0,
                              std::ssize(chunks_) + std::ssize(steps_)),
            .blocks = {}};
  const char* cached = family.block(config_).cached;
  for (Index layer = 0; layer < config_.layers; ++layer) {
    pass.blocks.push_back(pass.lane.blocks.front());
    if (cached != nullptr)
      pass.blocks.back().replace(cached, caches_[static_cast<std::size_t>(layer)]);
  }
  // What the cache stands for has no other owner, and goes.
  pass.lane.blocks.clear();
  pass.lane.dead_after.clear();
  passes.push_back(std::move(pass));
}

const rt::Handle& Continuation::extend(rt::Submitter& submitter,
                                       std::span<const std::int32_t> tokens, Index first) {
  const auto end = std::ssize(tokens);
  require(first >= 0 && first < end && end <= config_.context, "new tokens inside the context");
  const Pass* pass = nullptr;
  while (first < end) {
    const bool is_step = !steps_.empty() && end - first == 1;
    pass = is_step ? &steps_.front() : &chunks_[next_chunk_++ % chunks_.size()];
    const Index count = pass->lane.shape.context;
    // The last chunk ends with the last token. Where there are fewer tokens than it has, others
    // stand behind them, which nothing sees before they are overwritten.
    const Index start = std::max<Index>(0, std::min(first, end - count));
    std::vector<std::int32_t> part(static_cast<std::size_t>(count) + 1, 0);
    const auto there = tokens.subspan(static_cast<std::size_t>(start),
                                      static_cast<std::size_t>(std::min(count, end - start)));
    std::ranges::copy(there, part.begin());
    submit_pass(submitter, *pass, start, part);
    first = start + count;
    if (first >= end)
      head_.project_row(submitter, end - 1 - start, *pass->lane.last_norm, *pass->lane.logits,
                        nn::forward_urgency(config_.layers + 1, config_.layers + 1));
  }
  return *pass->lane.logits;
}

void Continuation::submit_pass(rt::Submitter& submitter, const Pass& pass, Index first,
                               std::span<const std::int32_t> tokens) const {
  const Index depths = config_.layers + 1;
  const Lane& lane = pass.lane;
  LaneShape shape = lane.shape;
  shape.first = first;
  nn::load_tokens(submitter, tokens, *lane.tokens);
  parts_.stem->forward(
      submitter,
      {.sequences = 1, .context = shape.context, .width = config_.width, .first = shape.first},
      *lane.tokens, *lane.stream[0], nn::forward_urgency(0, depths));
  for (std::size_t layer = 0; layer < parts_.blocks.size(); ++layer)
    parts_.blocks[layer]->forward(submitter, shape, *lane.stream[layer], pass.blocks[layer],
                                  lane.stream[layer + 1].get(),
                                  nn::forward_urgency(static_cast<Index>(layer) + 1, depths));
  parts_.norm->forward(submitter, {shape.tokens(), config_.width}, *lane.stream.back(),
                       *lane.last_norm, *lane.last_norm_stats, nn::forward_urgency(depths, depths));
}

}  // namespace dos::models

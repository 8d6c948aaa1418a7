// SPDX-License-Identifier: Apache-2.0
#include "models/lane.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "models/demand.hpp"
#include "shape/activations.hpp"

namespace dos::models {
namespace {

/// Registers the buffers of one lane under one name prefix.
class LaneBuilder {
 public:
  LaneBuilder(rt::Session& session, Index lane, Index tokens, DType type)
      : session_(session), prefix_(fmt::format("lane{}", lane)), tokens_(tokens), type_(type) {}

  void set_scope(std::string scope) { scope_ = std::move(scope); }

  /// [tokens, width] activations, in FP32 whatever their type is if `is_wide`.
  [[nodiscard]] HandlePtr activation(const std::string& name, Index width,
                                     bool is_wide = false) const {
    return make(name, is_wide ? DType::kF32 : type_, tokens_ * width, MemoryCategory::kActivations);
  }
  [[nodiscard]] BlockBuffers block(const std::vector<shape::Activation>& activations) const {
    BlockBuffers buffers;
    for (const shape::Activation& each : activations)
      buffers.add(each.name, activation(each.name, each.width, each.is_wide));
    return buffers;
  }
  [[nodiscard]] HandlePtr make(const std::string& name, DType type, Index count,
                               MemoryCategory category) const {
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

/// Where blocks share buffers, the names have those of their sets.
void add_kept(LaneBuilder& build, const std::vector<shape::Activation>& kept,
              const shape::ActivationSets& sets, Index layers, tensor::ActivationStore* store,
              Lane& lane) {
  lane.blocks.resize(static_cast<std::size_t>(layers));
  lane.dead_after.resize(static_cast<std::size_t>(layers));
  lane.moved.resize(static_cast<std::size_t>(layers));
  for (const shape::Activation& each : kept) {
    std::vector<std::shared_ptr<const rt::Handle>> handles;
    for (Index set = 0; set < sets.count(each); ++set) {
      build.set_scope(fmt::format("activations{}.", set));
      handles.push_back(build.activation(each.name, each.width, each.is_wide));
    }
    for (std::size_t layer = 0; layer < lane.blocks.size(); ++layer) {
      const auto& handle =
          handles[static_cast<std::size_t>(sets.of(each, static_cast<Index>(layer)))];
      lane.blocks[layer].add(each.name, handle);
      if (sets.is_last_use(each, static_cast<Index>(layer)))
        lane.dead_after[layer].push_back(handle.get());
      if (each.is_cheap || sets.refill(static_cast<Index>(layer)) != shape::Refill::kMove) continue;
      require(store != nullptr, "a store for what is moved");
      lane.moved[layer].push_back({handle.get(), store->add(handle->bytes())});
    }
  }
}

}  // namespace

Lane make_lane(rt::Session& session, const shape::Family& family, const shape::ModelConfig& config,
               const shape::RunShape& run, Index reached, Index index,
               tensor::ActivationStore* store) {
  Lane lane;
  lane.shape = {.sequences = run.lane_sequences(index), .context = config.context};
  const shape::BlockShape block = family.block(config);
  const shape::Passes passes{run.training, run.activations, reached};
  LaneBuilder build(session, index, lane.shape.tokens(), run.type);
  lane.tokens = build.make("tokens", DType::kI32, lane.shape.sequences * (config.context + 1),
                           MemoryCategory::kData);
  lane.loss = build.make("loss", DType::kF64, 1, MemoryCategory::kData);
  lane.logits = build.make("logits", run.type, logits_count(config, run, lane.shape.tokens()),
                           MemoryCategory::kActivations);
  for (Index layer = 0; layer <= config.layers; ++layer) {
    build.set_scope(fmt::format("stream{}.", layer));
    lane.stream.push_back(build.activation("x", config.width));
  }
  build.set_scope("final.");
  lane.last_norm = build.activation("norm", config.width);
  lane.last_norm_stats = build.activation("norm_stats", family.norm_statistics, /*is_wide=*/true);
  if (run.training) {
    lane.d_last_norm = build.activation("d_norm", config.width);
    lane.d_stream = build.activation("d_stream", config.width);
  }
  add_kept(build, block.kept, shape::ActivationSets(config, passes), config.layers, store, lane);
  for (Index set = 0; set < shape::gradient_sets(config, passes); ++set) {
    build.set_scope(fmt::format("gradients{}.", set));
    lane.gradients.push_back(build.block(block.gradients));
  }
  return lane;
}

}  // namespace dos::models

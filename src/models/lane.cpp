// SPDX-License-Identifier: Apache-2.0
#include "models/lane.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/error.hpp"
#include "models/demand.hpp"
#include "shape/activation_sets.hpp"

namespace dos::models {
namespace {

/// Registers the buffers of one lane under one name prefix.
class LaneBuilder {
 public:
  LaneBuilder(rt::Session& session, Index lane, Index tokens, DType type)
      : session_(session),
        prefix_(fmt::format("lane{}", lane)),
        tokens_(tokens),
        type_(type),
        on_devices_(session.cuda_workers() > 0) {}

  void set_scope(std::string scope) { scope_ = std::move(scope); }

  /// [tokens, width] activations, in FP32 whatever their type is if `is_wide`.
  [[nodiscard]] HandlePtr activation(const std::string& name, Index width,
                                     bool is_wide = false) const {
    return make(spec(name, is_wide ? DType::kF32 : type_, tokens_ * width));
  }
  /// Those that come to the host on their way to disks or, where memory is lent, stay there.
  [[nodiscard]] HandlePtr moved_activation(const shape::Activation& each, std::byte* lent) const {
    rt::HandleSpec moved =
        spec(each.name, each.is_wide ? DType::kF32 : type_, tokens_ * each.width);
    moved.stays_on_devices = false;
    moved.lent = lent;
    return make(std::move(moved));
  }
  [[nodiscard]] HandlePtr logits(Index count) const { return make(spec("logits", type_, count)); }
  [[nodiscard]] Index bytes_of(const shape::Activation& each) const {
    return tokens_ * each.width * size_of(each.is_wide ? DType::kF32 : type_);
  }
  [[nodiscard]] BlockBuffers block(const std::vector<shape::Activation>& activations) const {
    BlockBuffers buffers;
    for (const shape::Activation& each : activations)
      buffers.add(each.name, activation(each.name, each.width, each.is_wide));
    return buffers;
  }
  /// What the host fills or reads.
  [[nodiscard]] HandlePtr data(const std::string& name, DType type, Index count) const {
    rt::HandleSpec wanted = spec(name, type, count);
    wanted.category = MemoryCategory::kData;
    wanted.stays_on_devices = false;
    return make(std::move(wanted));
  }

 private:
  [[nodiscard]] rt::HandleSpec spec(const std::string& name, DType type, Index count) const {
    return {.name = fmt::format("{}.{}{}", prefix_, scope_, name),
            .type = type,
            .count = count,
            .category = MemoryCategory::kActivations,
            .stays_on_devices = on_devices_};
  }
  [[nodiscard]] HandlePtr make(rt::HandleSpec spec) const {
    return std::make_unique<rt::Handle>(session_, std::move(spec));
  }

  rt::Session& session_;
  std::string prefix_;
  std::string scope_;
  Index tokens_;
  DType type_;
  bool on_devices_;  ///< what the model computes
};

/// A buffer of what blocks keep, and its home where blocks that use it have no slot of their own.
struct Kept {
  std::shared_ptr<const rt::Handle> buffer;
  std::optional<Index> home;  ///< nothing: it is the buffer's for ever
};

/// Where blocks share buffers, the names have those of their sets.
std::vector<Kept> make_sets(LaneBuilder& build, const shape::Activation& each,
                            const shape::ActivationSets& sets, tensor::HostActivations* host) {
  std::vector<Kept> made;
  for (Index set = 0; set < sets.count(each); ++set) {
    build.set_scope(fmt::format("activations{}.", set));
    Kept kept;
    if (sets.changes_home(each, set)) {
      require(host != nullptr, "a store in host memory for what goes there");
      kept.home = host->add(build.bytes_of(each), rt::kHostNode);
    }
    kept.buffer =
        kept.home || sets.goes_to_disk(each, set)
            ? build.moved_activation(each, kept.home ? host->memory_of(*kept.home) : nullptr)
            : build.activation(each.name, each.width, each.is_wide);
    made.push_back(std::move(kept));
  }
  return made;
}

void add_kept(LaneBuilder& build, const std::vector<shape::Activation>& kept,
              const shape::ActivationSets& sets, Index layers, const ActivationStores& stores,
              Lane& lane) {
  const auto count = static_cast<std::size_t>(layers);
  lane.blocks.resize(count);
  lane.dead_after.resize(count);
  lane.moved.resize(count);
  lane.homes.resize(count);
  for (const shape::Activation& each : kept) {
    const std::vector<Kept> made = make_sets(build, each, sets, stores.host);
    for (Index layer = 0; layer < layers; ++layer) {
      const auto at = static_cast<std::size_t>(layer);
      const auto& [buffer, home] = made[static_cast<std::size_t>(sets.of(each, layer))];
      lane.blocks[at].add(each.name, buffer);
      if (sets.is_last_use(each, layer)) lane.dead_after[at].push_back(buffer.get());
      const shape::Refill refill = each.is_cheap ? shape::Refill::kNone : sets.refill(layer);
      std::optional<Index> slot = home;
      if (refill == shape::Refill::kHost) {
        slot = stores.host->add(buffer->bytes(), stores.node);
        lane.moved[at].push_back({buffer.get(), stores.host, *slot});
      } else if (refill == shape::Refill::kDisk) {
        require(stores.disk != nullptr, "a store for what is moved to disks");
        lane.moved[at].push_back(
            {buffer.get(), stores.disk, stores.disk->add(buffer->bytes(), stores.node)});
      }
      if (slot) lane.homes[at].push_back({buffer.get(), *slot});
    }
  }
}

}  // namespace

Lane make_lane(rt::Session& session, const shape::Family& family, const shape::ModelConfig& config,
               const shape::RunShape& run, Index reached, Index index,
               const ActivationStores& stores) {
  Lane lane;
  lane.shape = {.sequences = run.lane_sequences(index), .context = config.context};
  const shape::BlockShape block = family.block(config);
  const shape::Passes passes{run.training, run.activations, reached};
  LaneBuilder build(session, index, lane.shape.tokens(), run.type);
  lane.tokens = build.data("tokens", DType::kI32, lane.shape.sequences * (config.context + 1));
  lane.loss = build.data("loss", DType::kF64, 1);
  lane.logits = build.logits(logits_count(config, run, lane.shape.tokens()));
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
  add_kept(build, block.kept, shape::ActivationSets(config, passes), config.layers, stores, lane);
  for (Index set = 0; set < shape::gradient_sets(config, passes); ++set) {
    build.set_scope(fmt::format("gradients{}.", set));
    lane.gradients.push_back(build.block(block.gradients));
  }
  return lane;
}

}  // namespace dos::models

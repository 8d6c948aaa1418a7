// SPDX-License-Identifier: Apache-2.0
#include "shape/activation_sets.hpp"

#include <algorithm>

namespace dos::shape {
namespace {

void add(const Activation& activation, Index sets, ActivationCount& count) {
  (activation.is_wide ? count.wide : count.values) += sets * activation.width;
}

/// Sets in a ring: of the block at work and of the one before it; one more while a block's are on
/// their way from or to a disk or host memory.
Index ring_of(const ActivationPlan& plan) {
  return plan.moved + plan.hosted > 0 ? 3 : 2;
}

}  // namespace

Index Passes::reached_of(const ModelConfig& config) const {
  return training ? std::min(reached, config.layers) : 0;
}

Index reached_blocks(const ModelConfig& config, Index first_trained_depth) {
  return std::clamp<Index>(config.layers + 1 - first_trained_depth, 0, config.layers);
}

ActivationSets::ActivationSets(const ModelConfig& config, const Passes& passes)
    : plan_(passes.plan),
      layers_(config.layers),
      reached_(passes.reached_of(config)),
      made_(std::max<Index>(1, reached_), plan_.without_made(), ring_of(plan_)),
      cheap_(std::max<Index>(1, reached_), plan_.without_cheap(), ring_of(plan_)) {}

Index ActivationSets::place_of(Index layer) const {
  return reached_ == 0 ? 0 : std::max<Index>(0, layer - (layers_ - reached_));
}

bool ActivationSets::is_last_use(const Activation& activation, Index layer) const {
  if (reached_ == 0) return layer == layers_ - 1;
  return layer >= layers_ - reached_ && sets_of(activation).is_last_use(place_of(layer));
}

Refill ActivationSets::refill(Index layer) const {
  if (layer < layers_ - reached_) return Refill::kNone;
  const Index place = place_of(layer);
  if (!made_.is_lost(place)) return cheap_.is_lost(place) ? Refill::kSelective : Refill::kNone;
  if (place < plan_.moved) return Refill::kDisk;
  return place < plan_.moved + plan_.hosted ? Refill::kHost : Refill::kRecompute;
}

bool ActivationSets::is_moved(const Activation& activation, Index set, Refill where) const {
  if (activation.is_cheap) return false;
  for (Index layer = 0; layer < layers_; ++layer)
    if (refill(layer) == where && of(activation, layer) == set) return true;
  return false;
}

bool ActivationSets::changes_home(const Activation& activation, Index set) const {
  return is_moved(activation, set, Refill::kHost);
}

bool ActivationSets::goes_to_disk(const Activation& activation, Index set) const {
  return is_moved(activation, set, Refill::kDisk);
}

Index ActivationSets::in_transit() const {
  const Activation made{.name = "", .width = 0, .is_wide = false, .is_cheap = false};
  Index buffers = 0;
  for (Index set = 0; set < count(made); ++set)
    if (changes_home(made, set) || goes_to_disk(made, set)) ++buffers;
  return buffers;
}

Index ActivationSets::count(Refill refill) const {
  Index blocks = 0;
  for (Index layer = 0; layer < layers_; ++layer)
    if (this->refill(layer) == refill) ++blocks;
  return blocks;
}

Index gradient_sets(const ModelConfig& config, const Passes& passes) {
  return std::min<Index>(2, passes.reached_of(config));
}

ActivationCount count_activations(const Family& family, const ModelConfig& config,
                                  const Passes& passes) {
  const BlockShape block = family.block(config);
  ActivationCount count{.values = (config.layers + 2) * config.width,
                        .wide = family.norm_statistics};
  const ActivationSets sets(config, passes);
  for (const Activation& each : block.kept) add(each, sets.count(each), count);
  if (passes.training) count.values += 2 * config.width;
  for (const Activation& each : block.gradients) add(each, gradient_sets(config, passes), count);
  return count;
}

ActivationCount count_block(const Family& family, const ModelConfig& config, bool is_cheap) {
  ActivationCount count;
  for (const Activation& each : family.block(config).kept)
    if (each.is_cheap == is_cheap) add(each, 1, count);
  return count;
}

ActivationCount count_moved(const Family& family, const ModelConfig& config, const Passes& passes,
                            Refill where) {
  const Index blocks = ActivationSets(config, passes).count(where);
  const ActivationCount block = count_block(family, config, /*is_cheap=*/false);
  return {.values = blocks * block.values, .wide = blocks * block.wide};
}

ActivationCount count_in_transit(const Family& family, const ModelConfig& config,
                                 const Passes& passes) {
  const ActivationSets sets(config, passes);
  ActivationCount count;
  for (const Activation& each : family.block(config).kept)
    for (Index set = 0; set < sets.count(each); ++set)
      if (sets.changes_home(each, set) || sets.goes_to_disk(each, set)) add(each, 1, count);
  return count;
}

Index cheap_traffic(const Family& family, const ModelConfig& config) {
  Index source = config.width;
  Index numbers = 0;
  for (const Activation& each : family.block(config).kept) {
    if (each.is_cheap && !each.is_wide) numbers += source + each.width;
    if (!each.is_cheap && !each.is_wide) source = each.width;
  }
  return numbers;
}

}  // namespace dos::shape

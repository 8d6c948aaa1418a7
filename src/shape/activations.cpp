// SPDX-License-Identifier: Apache-2.0
#include "shape/activations.hpp"

#include <algorithm>

namespace dos::shape {
namespace {

void add(const std::vector<Activation>& activations, Index sets, ActivationCount& count) {
  for (const Activation& each : activations)
    (each.is_wide ? count.wide : count.values) += sets * each.width;
}

}  // namespace

Index Passes::reached_of(const ModelConfig& config) const {
  return training ? std::min(reached, config.layers) : 0;
}

Index reached_blocks(const ModelConfig& config, Index first_trained_depth) {
  return std::clamp<Index>(config.layers + 1 - first_trained_depth, 0, config.layers);
}

Index activation_sets(const ModelConfig& config, const Passes& passes) {
  const Index reached = std::max<Index>(1, passes.reached_of(config));
  return passes.recompute ? std::min<Index>(2, reached) : reached;
}

Index gradient_sets(const ModelConfig& config, const Passes& passes) {
  return std::min<Index>(2, passes.reached_of(config));
}

ActivationCount count_activations(const Family& family, const ModelConfig& config,
                                  const Passes& passes) {
  const BlockShape block = family.block(config);
  ActivationCount count{.values = (config.layers + 2) * config.width,
                        .wide = family.norm_statistics};
  add(block.kept, activation_sets(config, passes), count);
  if (passes.training) count.values += 2 * config.width;
  add(block.gradients, gradient_sets(config, passes), count);
  return count;
}

}  // namespace dos::shape

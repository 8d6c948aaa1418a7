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

Index activation_sets(const ModelConfig& config, bool training, bool recompute) {
  if (!training) return 1;
  return recompute ? std::min<Index>(2, config.layers) : config.layers;
}

Index gradient_sets(const ModelConfig& config, bool training) {
  return training ? std::min<Index>(2, config.layers) : 0;
}

ActivationCount count_activations(const Family& family, const ModelConfig& config, bool training,
                                  bool recompute) {
  const BlockShape block = family.block(config);
  ActivationCount count{.values = (config.layers + 2) * config.width,
                        .wide = family.norm_statistics};
  add(block.kept, activation_sets(config, training, recompute), count);
  if (training) count.values += 2 * config.width;
  add(block.gradients, gradient_sets(config, training), count);
  return count;
}

}  // namespace dos::shape

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "train/trainer.hpp"

namespace dos::test {

/// All elements of a parameter's values or moments.
inline std::vector<float> values_of(const tensor::SubgroupHandles& handles,
                                    const shape::PlacedParameter& parameter) {
  std::vector<float> values(static_cast<std::size_t>(parameter.spec.count()));
  handles.read(parameter, values);
  return values;
}

/// All parameters, each with its moments.
inline std::vector<std::vector<float>> state_of(const train::Trainer& trainer) {
  std::vector<std::vector<float>> state;
  for (const shape::PlacedParameter& parameter : trainer.parameters().layout().parameters) {
    const tensor::ParameterSet& parameters = trainer.parameters();
    const bool has_values = parameters.values().has(parameter.first_subgroup);
    state.push_back(values_of(has_values ? parameters.values() : parameters.working(), parameter));
    if (!parameter.spec.trained) continue;
    for (Index i = 0; i < std::ssize(trainer.optimizer().state_names()); ++i)
      state.push_back(values_of(trainer.optimizer().state(i), parameter));
  }
  return state;
}

}  // namespace dos::test

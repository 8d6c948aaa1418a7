// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tensor/layout.hpp"

namespace dos::optim {

/// Which parameters weight decay applies to, by kind and by name.
struct DecayGroups {
  bool vectors = false;     ///< biases and norm weights
  bool embeddings = false;  ///< "*_embedding.weight"
  /// Shell patterns (fnmatch(3)) of further matrices without decay.
  std::vector<std::string> excluded;

  [[nodiscard]] bool decays(const tensor::ParameterSpec& parameter) const;
};

/// Cuts a model's parameters into subgroups of at most `subgroup_params` parameters each: a matrix
/// into row blocks of near-equal size, the vectors of one depth together. Where `subgroup_params`
/// is at least 64 rows, blocks begin at multiples of 8. A norm's weight and bias stay together.
/// Throws Error when one row of a matrix, or the vectors of one module, exceed `subgroup_params`,
/// when there would be more than 200,000 subgroups, or when a pattern of `decay` matches no matrix.
tensor::Layout cut_into_subgroups(const std::vector<tensor::ParameterSpec>& parameters,
                                  Index subgroup_params, const DecayGroups& decay);

}  // namespace dos::optim

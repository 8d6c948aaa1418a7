// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "shape/layout.hpp"

namespace dos::shape {

/// Which parameters weight decay applies to, by kind and by name.
struct DecayGroups {
  bool vectors = false;     ///< biases and norm weights
  bool embeddings = false;  ///< "*_embedding.weight"
  /// Shell patterns (fnmatch(3)) of further matrices without decay.
  std::vector<std::string> excluded;

  [[nodiscard]] bool decays(const ParameterSpec& parameter) const;
};

/// Subgroups of a model: each is a task a step, with handles of its own.
inline constexpr Index kMostSubgroups = 200'000;

/// Cuts a model's parameters into subgroups of at most `subgroup_params` parameters each: a matrix
/// into row blocks of near-equal size, the vectors of one depth together. Where `subgroup_params`
/// is at least 64 rows, blocks begin at multiples of 8. A norm's weight and bias stay together.
/// Throws Error when one row of a matrix, or the vectors of one module, exceed `subgroup_params`,
/// when there would be more than kMostSubgroups, or when a pattern of `decay` matches no matrix.
Layout cut_into_subgroups(const std::vector<ParameterSpec>& parameters, Index subgroup_params,
                          const DecayGroups& decay);

}  // namespace dos::shape

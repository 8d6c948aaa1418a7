// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
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

/// "blocks.0.norm1" of "blocks.0.norm1.weight".
std::string module_of(const std::string& name);

/// Throws Error, naming key, pattern and the nearest name, unless the shell pattern matches one of
/// the parameters that `counts` accepts; `what` is what those are.
void expect_match(const char* key, const std::string& pattern, const char* what,
                  const std::vector<ParameterSpec>& parameters,
                  const std::function<bool(const ParameterSpec&)>& counts);

/// Cuts a model's parameters into subgroups of at most `subgroup_params` parameters each: a matrix
/// into row blocks of near-equal size, the vectors of one depth together that are trained alike.
/// Where `subgroup_params` is at least 64 rows, blocks begin at multiples of 8. A norm's weight and
/// bias stay together. Pre: the vectors of a module are trained alike (mark_trained()).
/// Throws Error when one row of a matrix, or the vectors of one module, exceed `subgroup_params`,
/// when there would be more than kMostSubgroups, or when a pattern of `decay` matches no matrix.
Layout cut_into_subgroups(const std::vector<ParameterSpec>& parameters, Index subgroup_params,
                          const DecayGroups& decay);

}  // namespace dos::shape

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shape/layout.hpp"

namespace dos::shape {

/// Which parameters are trained, and how fast, by shell patterns (fnmatch(3)) of their names.
struct TrainedGroups {
  struct Factor {
    std::string pattern;
    double factor;  ///< at least 0
  };

  std::vector<std::string> frozen;
  std::vector<Factor> factors;  ///< the first one that matches counts; 1 where none does
};

/// Whether a shell pattern means the parameter.
bool matches(const std::string& pattern, const ParameterSpec& parameter);

/// "a,b" as patterns; empty ones are left out.
std::vector<std::string> parse_patterns(const std::string& text);

/// "PATTERN:FACTOR,..." as factors. Throws Error naming `key` for an entry without a pattern or
/// without a finite number of at least 0.
std::vector<TrainedGroups::Factor> parse_factors(const std::string& key, const std::string& text);

/// Sets `trained` and `lr_factor` of every parameter. Of a model with adapters they alone are
/// trained. Throws Error, naming the key and the nearest name, for a pattern of optim.freeze that
/// matches no parameter, or none of the adapters where there are some, or one of optim.lr_factors
/// that matches none that is trained; where nothing would be trained; and where the vectors of one
/// module, which are computed together, would differ.
void mark_trained(const TrainedGroups& groups, std::vector<ParameterSpec>& parameters);

}  // namespace dos::shape

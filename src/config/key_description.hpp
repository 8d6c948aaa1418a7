// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace dos::config {

/// A key of --set, for those who show it.
struct KeyDescription {
  std::string name;                ///< "train.batch"
  std::string help;                ///< meaning, unit, what 0 or "" stands for
  std::string value;               ///< the default, as a configuration file has it; "" without one
  std::vector<std::string> words;  ///< all that it may be; empty: numbers, or any text
};

}  // namespace dos::config

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/model.hpp"

namespace dos::models {

/// Throws Error listing the known names.
const Architecture& find_architecture(const std::string& name);

/// A named shape. Throws Error listing the known names.
const ModelConfig& find_preset(const std::string& name);
std::vector<std::string> preset_names();

}  // namespace dos::models

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/config.hpp"
#include "planner/model_shape.hpp"

namespace dos::train {

/// The sizes of a model of this project, for the planner.
planner::ModelShape planned_shape(const std::string& name, const models::ModelConfig& config);

/// A model for `plan --model`: a preset of models::registry, a preset of
/// planner/model_shape.hpp, or the [model] of a configuration file of train_gpt that ends in
/// ".toml". Throws Error with the nearest name.
planner::ModelShape find_planned_model(const std::string& name);

std::vector<std::string> planned_model_names();

}  // namespace dos::train

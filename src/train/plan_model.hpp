// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/config.hpp"
#include "planner/model_shape.hpp"
#include "planner/planner.hpp"

namespace dos::train {

/// The sizes of a model of this project, for the planner.
planner::ModelShape planned_shape(const std::string& name, const models::ModelConfig& config);

/// A planned step of train_gpt with this configuration, as `plan` knows it: model, subgroups,
/// share, stride, window and residents of [sched], dist.zero, train.precision, train.recompute, and
/// train.batch as the sequences of a rank; what the file leaves out is train_gpt's default.
/// Machine, ranks and policy stay those of `request`. Throws Error, starting with the file, for a
/// value that train_gpt would refuse.
void take_configuration(const std::string& file, planner::Request& request);

/// A model for `plan --model`: a preset of models::registry or of
/// planner/model_shape.hpp. Throws Error with the nearest name.
planner::ModelShape find_planned_model(const std::string& name);

std::vector<std::string> planned_model_names();

}  // namespace dos::train

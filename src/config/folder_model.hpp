// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/train_config.hpp"
#include "shape/model_config.hpp"

namespace dos::config {

/// The keys that say this model, whatever the data set's vocabulary is: all that its family has.
/// Throws Error for a family that cannot be trained.
Keys::Model keys_of_model(const shape::ModelConfig& model);

/// Makes model.* say the model of a folder. `config` has model.preset = "" unless it was given, and
/// the defaults of the other keys unless they were. Throws Error naming the first key that was
/// given another value than the folder has, but for a smaller model.context: a table of positions
/// keeps its rows.
void take_folder_model(const shape::ModelConfig& model, const std::string& folder,
                       TrainConfig& config);

/// Makes lora.* say the adapters of a folder. Throws Error naming the first key that was given
/// another value.
void take_folder_adapters(const shape::AdapterChoice& adapters, const std::string& folder,
                          TrainConfig& config);

}  // namespace dos::config

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "train/run.hpp"

namespace dos::train {

/// The git revision this binary was built from, "unknown" outside a checkout.
std::string source_revision();

/// The program's version, "0.1.0".
std::string program_version();

/// run.json: format, configuration, model, libraries with their versions, the machine, the source
/// revision.
nlohmann::json describe_run(const Run& run, const std::string& scheduler, Index workers);

/// The model's shape as checkpoints record it.
nlohmann::json to_json(const shape::ModelConfig& model);
/// Throws Error, starting with the file `where`, when a field is missing or of the wrong type, the
/// family is unknown, or the sizes make no model of it.
shape::ModelConfig model_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace dos::train

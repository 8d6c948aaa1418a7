// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/key_description.hpp"
#include "config/train_config.hpp"

namespace dos::config {

/// Sets what a TOML file says. Throws Error "FILE:LINE: ..." for a syntax error, an unknown key
/// (with the nearest known one) or a value of the wrong type; `config` is then unchanged.
void read_config_file(const std::filesystem::path& path, TrainConfig& config);

/// Sets one key from "section.key=value", strings with or without quotes. Throws Error as above.
void set_from_text(const std::string& assignment, TrainConfig& config);

/// Sets one key of `plan` from "key=value". Throws Error for an unknown key (with the nearest), or
/// a value of the wrong type or outside its domain.
void set_from_text(const std::string& assignment, planner::PlanSettings& settings);

/// The whole configuration as a TOML file with a comment a key; read_config_file() reads it back.
std::string to_toml(const TrainConfig& config);

/// The keys with their defaults, in the order of the table of options.
std::vector<KeyDescription> training_keys();

/// Those of `plan`, which has defaults of its own and says them in words.
std::vector<KeyDescription> plan_keys();

/// The keys with defaults, for --help.
std::string describe_keys();

/// Those of `plan`, for its --help.
std::string describe_plan_keys();

}  // namespace dos::config

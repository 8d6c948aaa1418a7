// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "hf/json_keys.hpp"
#include "shape/model_config.hpp"

namespace dos::hf {

/// Rotary embeddings of a config.json.
struct Rope {
  double theta = 10000;
  shape::RopeScaling scaling{};
};

/// Reads `rope_theta` and `rope_scaling`, or `rope_parameters`, which has both in it. Throws Error
/// for a type other than default and llama3, and where the two disagree.
Rope read_rope(JsonKeys& keys);

/// Writes what both old and new versions of transformers read: `rope_theta` and `rope_scaling`.
void write_rope(const Rope& rope, nlohmann::json& config);

}  // namespace dos::hf

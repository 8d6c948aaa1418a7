// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hf/tensor_names.hpp"
#include "shape/adapters.hpp"
#include "shape/model_config.hpp"

/// Adapters of low rank in the form of PEFT (github.com/huggingface/peft).
namespace dos::hf {

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";

/// The modules that names of lora.targets mean, as PEFT reads them: a name is that of a module, or
/// of its last part ("q_proj" of "self_attn.q_proj"), or "all-linear"; without names those that
/// PEFT takes for the family. Throws Error naming the nearest for a name that no matrix of a block
/// has.
std::map<std::string, std::vector<Index>> adapter_targets(const shape::ModelConfig& model,
                                                          const std::vector<std::string>& names);

/// The tensors of a model's adapters, in the order of its parameters: each pair is covered once.
std::vector<TensorName> adapter_tensors(const shape::ModelConfig& model);

/// An adapter_config.json that PEFT reads. `base`: the folder of the model, "" where none is known.
nlohmann::json adapter_json(const shape::ModelConfig& model, const std::string& base);

/// What an adapter_config.json says; `path` names it in errors. Throws Error "FILE: field 'KEY':
/// what; remedy" for a file that is damaged, and for adapters that this program does not compute.
shape::AdapterChoice parse_adapter_config(std::string_view text, const std::filesystem::path& path);
/// As above, of FOLDER/adapter_config.json.
shape::AdapterChoice read_adapter_config(const std::filesystem::path& folder);

}  // namespace dos::hf

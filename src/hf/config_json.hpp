// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "shape/model_config.hpp"

namespace dos::hf {

inline constexpr const char* kConfigFile = "config.json";

/// Names of the kinds of models that are read ("model_type").
std::vector<std::string> known_model_types();

/// The model that a config.json describes; `path` names it in errors. Every size is set that its
/// family has, so that a model of the family "llama" has no member that stands for another's value
/// but `window`. Throws Error "FILE: field 'KEY': what; remedy" for a file that is damaged, a kind
/// of model that is not known, a value that this program cannot compute with, and a key that it
/// does not know.
shape::ModelConfig parse_config(std::string_view text, const std::filesystem::path& path);

/// As above, of FOLDER/config.json.
shape::ModelConfig read_config(const std::filesystem::path& folder);

/// Tokens of a config.json that have a meaning of their own, where it names them.
struct SpecialTokens {
  std::optional<Index> begin{};
  std::optional<Index> padding{};
  std::vector<Index> ends{};  ///< at any of which a text ends
};

/// What a config.json says besides the model.
struct ExportedConfig {
  DType dtype = DType::kF32;  ///< of the weights: kF32 or kBF16
  std::vector<Index> ends{};  ///< what stands behind texts and answers, in place of tokens.ends
  SpecialTokens tokens{};
};

/// A config.json that transformers reads, for a model of the family "gpt2" or "llama". The kind is
/// the first that has all that the model has, of llama, mistral, qwen2 and qwen3. Throws Error for
/// a model that none of them has.
nlohmann::json config_json(const shape::ModelConfig& model, const ExportedConfig& exported);

/// A generation_config.json: the tokens at which generation ends, if they are known.
nlohmann::json generation_json(const ExportedConfig& exported);

/// A tokenizer_config.json with which transformers takes the tokenizer's file beside it as it is:
/// without one it takes the tokenizer of the kind of model, with this file's vocabulary.
/// `end_of_text`: the text of that token, which the file does not say.
nlohmann::json tokenizer_config_json(const std::string& end_of_text);

}  // namespace dos::hf

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "shape/family_shape.hpp"

namespace dos::shape {

/// A model by sizes: what can be planned and cut, whether or not it can be trained here.
struct Model {
  std::string name;
  ModelConfig config;
  const Family* family = nullptr;
  std::vector<ParameterSpec> parameters;  ///< in the order of forward

  [[nodiscard]] Index params() const;
  /// Parameters that are trained.
  [[nodiscard]] Index trained_params() const;
  [[nodiscard]] Index depths() const { return config.layers + 2; }
  /// Parameters by depth.
  [[nodiscard]] std::vector<Index> params_by_depth() const;
  /// As of a layout: where backward ends.
  [[nodiscard]] Index first_trained_depth() const;
  /// Parameters that are trained, by depth.
  [[nodiscard]] std::vector<Index> trained_by_depth() const;
};

/// Throws Error for an unknown family or sizes that make no model of it.
Model model_of(std::string name, const ModelConfig& config);

/// A named model of presets(). Throws Error listing `known`, the names that the caller takes, and
/// `more` behind them.
const ModelConfig& find_preset(const std::string& name, const char* what,
                               const std::vector<std::string>& known, const char* more = "");
/// All, of every family, in the order in which they are listed.
std::vector<std::string> preset_names();
/// Those of a family.
std::vector<std::string> preset_names(const std::string& family);

}  // namespace dos::shape

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/block.hpp"
#include "nn/parts.hpp"
#include "shape/family_shape.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::models {

/// What a decoder is made of, with its parameters.
struct Parts {
  std::unique_ptr<nn::Stem> stem;
  std::vector<std::unique_ptr<Block>> blocks;
  std::unique_ptr<nn::Norm> norm;  ///< the last one
};

/// A family of models that can be trained (docs/adding/model.md).
struct Family {
  const shape::Family& shape;
  /// The parts of one model; `workspace` is that of attention.
  Parts (*parts)(const tensor::ParameterSet&, const shape::ModelConfig&,
                 const rt::Handle& workspace);
};

/// The family of a configuration. Throws Error for one that is not known, or only to plans.
const Family& find_family(const std::string& name);

/// Makes a family known here and to shape::find_family(). `family` must outlive every use. Throws
/// Error for a name that is taken. Not thread-safe: before anything looks for a family.
void add_family(const Family& family);

/// Shapes by name that can be trained: those of shape::preset_names() with a family here. Throws
/// Error listing them.
const shape::ModelConfig& find_preset(const std::string& name);
std::vector<std::string> preset_names();

}  // namespace dos::models

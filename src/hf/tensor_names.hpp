// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "shape/model_config.hpp"

namespace dos::hf {

/// A tensor of a folder, and the part of a parameter that it is.
struct TensorName {
  std::string tensor;
  std::vector<Index> shape;    ///< as the folder has it
  std::string parameter;       ///< as checkpoints name it
  Index first = 0;             ///< row (of a vector: element) of the parameter at which it begins
  bool is_transposed = false;  ///< the parameter is [out, in], the tensor [in, out]

  [[nodiscard]] Index count() const;
};

/// The tensors of a model, in the order of its parameters: every parameter is covered once. Throws
/// Error for a family that transformers does not have.
std::vector<TensorName> tensor_names(const shape::ModelConfig& model);

/// `name` without what only some folders put before it: "transformer." or "model.".
std::string_view without_prefix(std::string_view name);

/// The matrix of the logits where it is no parameter of its own, but the token table.
inline constexpr const char* kTiedHead = "lm_head.weight";

/// Whether a tensor is no parameter: a mask or a table that follows from the sizes.
bool is_constant(std::string_view name);

}  // namespace dos::hf

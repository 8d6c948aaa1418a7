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

/// The tensors of a model, in the order of its parameters: every one but those of adapters is
/// covered once. Throws
/// Error for a family that transformers does not have.
std::vector<TensorName> tensor_names(const shape::ModelConfig& model);

/// A matrix of a block, as folders have it, and the part of a parameter's rows that it is.
struct BlockMatrix {
  std::string theirs;  ///< "self_attn.q_proj"
  std::string ours;    ///< "attention.qkv"
  Index part = 0;
};
/// Those of each block of a model, in the order of its parameters. Throws Error as tensor_names().
std::vector<BlockMatrix> block_matrices(const shape::ModelConfig& model);

/// What stands before the names of a block's modules: "model.layers.3.". `block` as in names of
/// parameters, "3".
std::string block_prefix(const shape::ModelConfig& model, const std::string& block);

/// `name` without what only some folders put before it: "transformer." or "model.".
std::string_view without_prefix(std::string_view name);

/// The matrix of the logits where it is no parameter of its own, but the token table.
inline constexpr const char* kTiedHead = "lm_head.weight";

/// Whether a tensor is no parameter: a mask or a table that follows from the sizes.
bool is_constant(std::string_view name);

}  // namespace dos::hf

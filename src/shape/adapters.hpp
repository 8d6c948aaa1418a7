// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace dos::shape {

/// Adapters of low rank (LoRA, arXiv 2106.09685) of a model: beside a product y = x w^T stands
/// y += scale * (x a^T) b^T, with a[rank, in] and b[rows, rank] for each adapted part of w's rows.
struct Adapters {
  Index rank = 0;  ///< 0: there are none
  double alpha = 8;
  bool by_root = false;  ///< scale is alpha / sqrt(rank) (arXiv 2312.03732), else alpha / rank
  /// The modules of a block that are adapted ("attention.qkv"), in every block alike, and which of
  /// the parts of their rows (ParameterSpec::parts; {0} where there is one), ascending.
  std::map<std::string, std::vector<Index>> targets{};

  bool operator==(const Adapters&) const = default;

  [[nodiscard]] bool any() const { return rank != 0; }
  [[nodiscard]] double scale() const;
};

/// What the keys lora.* say of a model's adapters.
struct AdapterChoice {
  Index rank = 0;
  double alpha = 8;
  std::string targets;  ///< names of modules, comma-separated; empty: the family's usual ones
  bool rslora = false;

  bool operator==(const AdapterChoice&) const = default;
};

/// What the pair of matrices behind a matrix adds to its product. The rows of the pair's first
/// matrix, `rank` each, and those of its second one lie in the order of the parts.
struct AdaptedRows {
  struct Part {
    Index first;  ///< row of the matrix
    Index rows;
  };

  Index rank = 0;
  double scale = 0;
  std::vector<Part> parts{};

  /// Numbers between the two matrices, a token.
  [[nodiscard]] Index width() const { return rank * static_cast<Index>(parts.size()); }
};

/// "blocks.0.mlp.up" -> names of its pair and, as shape::BlockShape has it, of what lies between
/// the two: "blocks.0.mlp.up.lora_a.weight", "blocks.0.mlp.up.lora_b.weight", "mlp.up.lora".
std::string down_name(const std::string& module);
std::string up_name(const std::string& module);
std::string between_name(const std::string& module);

}  // namespace dos::shape

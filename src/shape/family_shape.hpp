// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shape/layout.hpp"
#include "shape/model_config.hpp"

namespace dos::shape {

/// What a block keeps of each token: so many numbers of the activations' type, or of FP32.
struct Activation {
  std::string name;
  Index width;
  bool is_wide = false;  ///< FP32 whatever the activations are: statistics, logarithms of sums
  /// Made again without a product: from the last before it that is neither wide nor cheap, or,
  /// where there is none, from the block's input. Statistics are cheap with what they belong to.
  bool is_cheap = false;
};

/// One block of a decoder, as far as buffers and tasks go.
struct BlockShape {
  std::vector<Activation> kept;       ///< by forward, for backward
  std::vector<Activation> gradients;  ///< of activations, while backward runs
  /// Of what is kept, what a token reads of those before it; null: nothing.
  const char* cached = nullptr;
  // Tasks of a lane; each piece of a matrix has one more in backward.
  Index forward_tasks = 0;
  Index recompute_tasks = 0;  ///< once more in backward, where activations are not kept
  Index selective_tasks = 0;  ///< as many where only what is cheap is not kept
  Index backward_tasks = 0;
};

/// A family of decoder-only transformers as sizes: all that plans, memory estimates and cutting
/// need. models/family.hpp computes it.
struct Family {
  const char* name;
  /// In the order in which forward uses them, without adapters.
  std::vector<ParameterSpec> (*own_parameters)(const ModelConfig&);
  /// Without what adapters keep.
  BlockShape (*own_block)(const ModelConfig&);
  /// The matrix [vocabulary, width] that makes logits; a table when it is tied. Where a
  /// configuration may tie it (ModelConfig::tied_head), head_of() has the answer.
  const char* head;
  /// Numbers of FP32 that the last norm keeps of each token.
  Index norm_statistics;
  /// Throws Error naming a size that the family does not have. May be null.
  void (*validate)(const ModelConfig&);
  /// Whether positions have a table, of ModelConfig::position_rows() rows, and no other size is
  /// free beside those that all families have.
  bool has_position_table = false;

  /// Those of a model with its adapters, each pair behind the matrix that it adds to.
  [[nodiscard]] std::vector<ParameterSpec> parameters(const ModelConfig& config) const;
  /// With what adapters keep.
  [[nodiscard]] BlockShape block(const ModelConfig& config) const;
};

/// Throws Error listing the known names.
const Family& find_family(std::string_view name);
inline bool has_position_table(const ModelConfig& config) {
  return find_family(config.architecture).has_position_table;
}

/// The name of the token table, in every family.
inline constexpr const char* kTokenTable = "token_embedding.weight";
/// The matrix that makes a model's logits.
const char* head_of(const ModelConfig& config);

/// Throws Error for an unknown family, or sizes that make no model of it.
void validate(const ModelConfig& config);

/// Makes a family known; `family` must outlive every use. Throws Error for a name that is taken.
/// Not thread-safe: before anything looks for a family.
void add_family(const Family& family);

const Family& gpt2();
/// LLaMA, Mistral, Qwen and the LLaMA-like models of Deep Optimizer States (arXiv 2410.21316):
/// RMSNorm, rotary embeddings, grouped heads of keys and values, SwiGLU.
const Family& llama();

}  // namespace dos::shape

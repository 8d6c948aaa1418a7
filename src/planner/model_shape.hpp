// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "base/types.hpp"

namespace dos::planner {

/// One tensor: the planner knows models by sizes only, so it can plan what cannot be trained here.
struct TensorSize {
  Index params = 0;
  Index depth = 0;  ///< 0 embeddings, 1 .. layers, layers + 1
};

struct ModelShape {
  std::string name;
  Index layers = 0;
  Index width = 0;
  Index ffn = 0;  ///< inner width of the MLP
  Index heads = 0;
  Index kv_heads = 0;
  Index context = 0;  ///< tokens a sequence
  Index vocabulary = 0;
  bool gated = false;               ///< SwiGLU: three matrices instead of two
  std::vector<TensorSize> tensors;  ///< in the order of forward

  [[nodiscard]] Index params() const;
};

/// The LLaMA-like shapes of Deep Optimizer States (arXiv 2410.21316, the table of models in its
/// artifact): SwiGLU, untied embeddings, grouped key/value heads, vocabulary 50304, sequences of
/// 2048 tokens. The names are the paper's; the real parameter counts differ from them. An empty
/// optional for another name. (Presets of models that can be trained: train/plan_model.hpp.)
std::optional<ModelShape> find_llama(const std::string& name);
std::vector<std::string> llama_names();

}  // namespace dos::planner

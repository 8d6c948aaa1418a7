// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "models/config.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::models::gpt2 {

using HandlePtr = std::unique_ptr<rt::Handle>;

/// What one block keeps of forward for its backward; n tokens, width C, H heads. Of the
/// activations' type, but for FP32 statistics and logsumexps.
struct BlockActivations {
  HandlePtr norm1;        ///< [n, C]
  HandlePtr norm1_stats;  ///< [n, 2]
  HandlePtr qkv;          ///< [n, 3C]
  HandlePtr attention;    ///< [n, C]
  HandlePtr logsumexp;    ///< [n, H]
  HandlePtr middle;       ///< [n, C]: the residual stream after attention
  HandlePtr norm2;        ///< [n, C]
  HandlePtr norm2_stats;  ///< [n, 2]
  HandlePtr hidden;       ///< [n, 4C] before GELU
  HandlePtr activated;    ///< [n, 4C] after GELU

  [[nodiscard]] std::array<const rt::Handle*, 10> all() const {
    return {norm1.get(),  norm1_stats.get(), qkv.get(),         attention.get(), logsumexp.get(),
            middle.get(), norm2.get(),       norm2_stats.get(), hidden.get(),    activated.get()};
  }
};

/// Gradients of one block's activations.
struct BlockGradients {
  HandlePtr hidden;     ///< [n, 4C]
  HandlePtr norm2;      ///< [n, C]
  HandlePtr middle;     ///< [n, C]
  HandlePtr attention;  ///< [n, C]
  HandlePtr qkv;        ///< [n, 3C]
  HandlePtr norm1;      ///< [n, C]
  HandlePtr input;      ///< [n, C]

  [[nodiscard]] std::array<const rt::Handle*, 7> all() const {
    return {hidden.get(), norm2.get(), middle.get(), attention.get(),
            qkv.get(),    norm1.get(), input.get()};
  }
};

/// Every buffer of one lane. Block l uses blocks[l % size] and gradients[l % size]: with two sets
/// of gradients the weight gradients of one block may still run while the next block's backward
/// does.
struct Lane {
  Index sequences = 0;
  Index tokens_count = 0;         ///< sequences * context
  HandlePtr tokens;               ///< I32 [sequences, context + 1]
  HandlePtr loss;                 ///< FP64 [1]
  HandlePtr logits;               ///< [min(n, logits_rows), logits_stride(V)]
  std::vector<HandlePtr> stream;  ///< [n, C] each: the input of every block, then the last output
  HandlePtr final_norm;           ///< [n, C]
  HandlePtr final_norm_stats;     ///< [n, 2]
  HandlePtr d_final_norm;         ///< [n, C], training only
  HandlePtr d_stream;             ///< [n, C]: gradient of the last output, training only
  std::vector<BlockActivations> blocks;
  std::vector<BlockGradients> gradients;  ///< empty unless training
};

/// Sets of block activations a lane keeps.
Index activation_sets(const ModelConfig& config, const RunShape& shape);
/// Sets of block gradients a lane keeps.
Index gradient_sets(const ModelConfig& config, const RunShape& shape);

Lane make_lane(rt::Session& session, const ModelConfig& config, const RunShape& shape, Index index);

}  // namespace dos::models::gpt2

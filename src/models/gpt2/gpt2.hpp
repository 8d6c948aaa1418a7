// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "models/model.hpp"

/// GPT-2: token and learned position embedding, pre-LayerNorm blocks of causal multi-head attention
/// and a GELU feed-forward of four times the width, a last LayerNorm, and the token embedding once
/// more as the vocabulary projection.
///
/// Tensors: token_embedding.weight [vocabulary, width], position_embedding.weight [context, width],
/// blocks.<i>.{norm1,norm2}.{weight,bias} [width], blocks.<i>.attention.qkv [3 width, width],
/// .attention.projection [width, width], .mlp.up [4 width, width], .mlp.down [width, 4 width], each
/// .weight with a .bias, and final_norm.{weight,bias}.
namespace dos::models::gpt2 {

std::vector<tensor::ParameterSpec> parameters(const ModelConfig& config);

/// Values a lane of n tokens keeps, of the activations' type but for the FP32 logsumexps and
/// statistics (H + 4 a set, 2 of the last norm), for width C, H heads, L layers and S = L (2 with
/// recompute, at most L) sets of block activations:
///   n ((L + 1) C + S (15 C + H + 4) + C + 2), when training also n (2 C + 2 * 12 C) for the
///   gradients
/// of activations (12 C with one layer), and the logits of min(n, logits_rows) tokens, each
/// logits_stride(V) values.
rt::MemoryBytes buffers(const ModelConfig& config, const RunShape& shape,
                        const WorkerCount& workers);

/// Buffers and tasks of a run.
RunCounts counts(const ModelConfig& config, const RunShape& shape, const tensor::Layout& layout);

std::unique_ptr<Model> build(rt::Session& session, const tensor::ParameterSet& parameters,
                             const ModelConfig& config, const RunShape& shape);

}  // namespace dos::models::gpt2

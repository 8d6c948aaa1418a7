// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/family.hpp"

/// LLaMA 2 and 3, Mistral, Qwen 2, 2.5 and 3: token embedding, blocks of RMSNorm, causal attention
/// with rotary embeddings and grouped heads, RMSNorm and a gated feed-forward, a last RMSNorm, and
/// a vocabulary projection, tied to the token embedding or not.
///
/// Tensors, with d = head_size: token_embedding.weight [vocabulary, width],
/// blocks.<i>.{norm1,norm2}.weight [width], .attention.qkv.weight [(heads + 2 kv_heads) d, width],
/// with .bias if qkv_bias, .attention.head_norm.weight [2 d] if qk_norm,
/// .attention.projection.weight [width, heads d], .mlp.gate_up.weight [2 ffn, width],
/// .mlp.down.weight [width, ffn]; final_norm.weight [width]; head.weight [vocabulary, width] unless
/// tied_head (src/shape/llama_shape.cpp).
namespace dos::models::llama {

const Family& family();

}  // namespace dos::models::llama

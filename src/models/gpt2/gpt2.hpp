// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/family.hpp"

/// GPT-2: token and learned position embedding, pre-LayerNorm blocks of causal multi-head attention
/// and a GELU feed-forward of four times the width, a last LayerNorm, and the token embedding once
/// more as the vocabulary projection.
///
/// Tensors: token_embedding.weight [vocabulary, width], position_embedding.weight [context, width],
/// blocks.<i>.{norm1,norm2}.{weight,bias} [width], blocks.<i>.attention.qkv [3 width, width],
/// .attention.projection [width, width], .mlp.up [4 width, width], .mlp.down [width, 4 width], each
/// .weight with a .bias, and final_norm.{weight,bias} (src/shape/gpt2_shape.cpp).
namespace dos::models::gpt2 {

const Family& family();

}  // namespace dos::models::gpt2

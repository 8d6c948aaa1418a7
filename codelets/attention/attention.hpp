// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// Causal multi-head attention over `sequences` independent sequences of `tokens` tokens.
/// width = heads * head_size; scores are scaled by 1/sqrt(head_size).
struct AttentionShape {
  Index sequences;
  Index tokens;
  Index heads;
  Index head_size;

  [[nodiscard, gnu::always_inline]] constexpr Index width() const { return heads * head_size; }
};

/// Rows of the score matrix computed at a time: memory stays linear in the number of tokens.
inline constexpr Index kAttentionRows = 64;

/// The rows of a score tile are padded to this many elements, the widest vector.
inline constexpr Index kAttentionPadding = 16;

/// Elements between the rows of a score tile that covers `keys` keys.
[[gnu::always_inline]] constexpr Index attention_row_stride(Index keys) {
  return (keys + kAttentionPadding - 1) / kAttentionPadding * kAttentionPadding;
}

/// Floats of work space: forward one, backward two [kAttentionRows, padded tokens] tiles and one
/// row vector; for BF16, one head in FP32 besides: q, k, v, their gradients, out and dout.
[[gnu::always_inline]] constexpr Index attention_workspace(const AttentionShape& s, DType type) {
  const Index tiles = 2 * kAttentionRows * attention_row_stride(s.tokens) + kAttentionRows;
  return tiles + (type == DType::kBF16 ? 8 * s.tokens * s.head_size : 0);
}

/// A value that is not finite spoils the tokens that see it, and may spoil up to kAttentionRows - 1
/// tokens before it.
///
/// qkv[sequences * tokens, 3 * width], each row q then k then v, heads contiguous inside each;
/// out[sequences * tokens, width]; logsumexp[sequences, heads, tokens] receives the natural
/// logarithm of each softmax denominator (of scaled scores), all that backward needs to rebuild a
/// row. T is float or BF16; scores, weights and sums are FP32, results are rounded once.
template <simd::Isa, class T>
void attention_forward_cpu(const AttentionShape& shape, const T* qkv, T* out, float* logsumexp,
                           float* workspace);

/// dqkv (same layout as qkv, overwritten) from dout[sequences * tokens, width].
template <simd::Isa, class T>
void attention_backward_cpu(const AttentionShape& shape, const T* qkv, const T* out,
                            const float* logsumexp, const T* dout, T* dqkv, float* workspace);

}  // namespace dos::codelets

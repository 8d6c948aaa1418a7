// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/host_device.hpp"
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
  /// Heads of keys and of values, a divisor of `heads`: head h of the queries meets head
  /// h / group(). 0: one for each.
  Index kv_heads = 0;
  Index window = 0;  ///< a token attends to so many at most, itself the last; 0: to all before it
  /// Forward: the first token that asks. Those before have keys and values only, of an earlier
  /// task.
  Index first = 0;

  [[nodiscard]] DOS_HD constexpr Index width() const { return heads * head_size; }
  [[nodiscard]] DOS_HD constexpr Index key_heads() const {
    return kv_heads != 0 ? kv_heads : heads;
  }
  [[nodiscard]] DOS_HD constexpr Index key_width() const { return key_heads() * head_size; }
  /// Heads of queries that share one of keys and values.
  [[nodiscard]] DOS_HD constexpr Index group() const {
    return heads == 0 ? 1 : heads / key_heads();
  }
  /// Tokens of a sequence that ask: rows of out and logsumexp.
  [[nodiscard]] DOS_HD constexpr Index queries() const { return tokens - first; }
  /// Elements of a row of qkv.
  [[nodiscard]] DOS_HD constexpr Index qkv_width() const { return width() + 2 * key_width(); }
  /// The first token that one attends to.
  [[nodiscard]] DOS_HD constexpr Index first_seen(Index token) const {
    return window != 0 && token >= window ? token - window + 1 : 0;
  }
};

/// Queries and keys whose scores are computed at a time, at most: memory stays linear in the number
/// of tokens.
inline constexpr Index kAttentionRows = 64;

/// Rows are padded to this many elements, the widest vector.
inline constexpr Index kAttentionPadding = 16;

/// Elements of a row of `count` with its padding.
[[gnu::always_inline]] constexpr Index attention_row_stride(Index count) {
  return (count + kAttentionPadding - 1) / kAttentionPadding * kAttentionPadding;
}

/// Floats of work space: one head's keys, values and their gradients; of kAttentionRows queries
/// what is read and written of them, two of these also transposed, two tiles and three numbers a
/// query; what it takes to begin with a whole cache line.
[[gnu::always_inline]] constexpr Index attention_workspace(const AttentionShape& s) {
  constexpr Index kMostRowsBehind = 8;
  const Index stride = attention_row_stride(s.head_size);
  return 4 * (s.tokens + kMostRowsBehind) * stride + 5 * kAttentionRows * stride +
         2 * kAttentionRows * kAttentionRows + 3 * kAttentionRows + kAttentionPadding;
}

/// A value that is not finite spoils the tokens that see it, and may spoil up to kAttentionRows - 1
/// tokens before it, with a window also about as many after those that see it.
///
/// qkv[sequences * tokens, qkv_width()], each row q then k then v, heads contiguous inside each;
/// out[sequences * queries(), width]; logsumexp[sequences, heads, queries()] receives the natural
/// logarithm of each softmax denominator (of scaled scores), all that backward needs to rebuild a
/// row. T is float or BF16; scores, weights and sums are FP32, results are rounded once.
template <simd::Isa, class T>
void attention_forward_cpu(const AttentionShape& shape, const T* qkv, T* out, float* logsumexp,
                           float* workspace);

/// dqkv (same layout as qkv, overwritten) from dout[sequences * tokens, width]. Pre: first == 0.
template <simd::Isa, class T>
void attention_backward_cpu(const AttentionShape& shape, const T* qkv, const T* out,
                            const float* logsumexp, const T* dout, T* dqkv, float* workspace);

}  // namespace dos::codelets

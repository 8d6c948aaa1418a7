// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/attention/attention.hpp"
#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/context.hpp"

/// Attention of cuBLAS's batched products and a softmax between them, for heads of any size: what
/// the tiled kernels (attention_cuda.hpp) do not take, and the reference on a GPU for what they do.
/// The scores of a head are written to memory, masked ones too.
namespace dos::codelets {

/// Where the scores lie: device memory, aligned to 16 bytes, that nothing else uses meanwhile. What
/// it held does not matter.
struct AttentionScores {
  void* memory;
  Index bytes;
};

/// FP32 numbers of one matrix of scores: [tokens, attention_row_stride(tokens)].
constexpr Index attention_score_count(Index tokens) {
  return tokens * attention_row_stride(tokens);
}

/// The least that backward runs in: the scores of a head and the gradients of its weights. Forward
/// runs in half of it.
constexpr Index attention_scores_of_head(Index tokens) {
  return 2 * attention_score_count(tokens) * size_of(DType::kF32);
}

/// Bytes that make the products of a batch large enough to fill a GPU: four heads of 1024 tokens,
/// or one of 2048.
inline constexpr Index kAttentionScoreBytes = Index{32} << 20;

/// Heads of a sequence that one batch of products may have: those that share keys and values, or,
/// where none do, all.
constexpr Index attention_heads_together(const AttentionShape& shape) {
  return shape.group() == 1 ? shape.heads : shape.group();
}

/// Bytes of scores that a task should have: as many of the heads that may be together as fit into
/// kAttentionScoreBytes, but at least one.
constexpr Index attention_score_bytes(const AttentionShape& shape) {
  const Index one = attention_scores_of_head(shape.tokens);
  if (one == 0 || shape.heads == 0) return 0;
  const Index fit = kAttentionScoreBytes / one;
  const Index heads = attention_heads_together(shape);
  return one * (fit < 1 ? 1 : fit < heads ? fit : heads);
}

// The functions exist only if kHasCudaKernels; they start on the context's stream, wait for
// nothing, and return null or what went wrong. Arrays and types as in attention_cuda.hpp: one may
// take what the other has left. Weights and, in BF16, gradients of the scores are rounded once
// before they are multiplied; sums are FP32. A value that is not finite spoils its head's results
// of the whole sequence. Heads are worked on as many at a time as `scores` has room for, with the
// same result.

/// attention_forward_cpu (attention.hpp), without its work space.
const char* attention_forward_batched_cuda(const CudaContext& context, DType type,
                                           const AttentionShape& shape, const void* qkv, void* out,
                                           float* logsumexp, const AttentionScores& scores);

/// attention_backward_cpu (attention.hpp), without its work space.
const char* attention_backward_batched_cuda(const CudaContext& context, DType type,
                                            const AttentionShape& shape, const void* qkv,
                                            const void* out, const float* logsumexp,
                                            const void* dout, void* dqkv,
                                            const AttentionScores& scores);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>

#include "codelets/attention/attention.hpp"
#include "codelets/attention/attention_batched_cuda.hpp"
#include "codelets/attention/attention_cuda.hpp"
#include "codelets/attention/attention_cudnn.hpp"
#include "codelets/operation.hpp"

/// Causal attention of one lane; layout of the buffers in attention.hpp.
namespace dos::codelets {

inline bool is_tiled(const AttentionShape& shape) {
  return shape.head_size <= kLargestTiledHead;
}

/// FP32 elements of the work space of one task over a lane of such sequences, whatever worker runs
/// it. CUDA workers (`on_cuda`: there are some) need none for heads of at most kLargestTiledHead
/// elements; for larger ones the scores of some heads, which then grow with the square of the
/// tokens.
inline Index attention_task_workspace(const AttentionShape& shape, bool on_cuda) {
  const Index on_cpu = attention_workspace(shape);
  if (!on_cuda || is_tiled(shape)) return on_cpu;
  return std::max(on_cpu, attention_score_bytes(shape) / size_of(DType::kF32));
}

/// Device memory that all kernels of a CUDA worker share (rt::CudaWorkspaces) where tasks over such
/// sequences run, by the library that is chosen.
Index attention_cuda_workspace(const AttentionShape& shape, DType type);

/// prepare_attention() for each shape on each CUDA worker of the running session. No tasks may be
/// pending.
void prepare_attention_on_gpus(DType type, std::span<const AttentionShape> shapes);

inline AttentionScores scores_in(std::span<float> workspace) {
  return {workspace.data(), static_cast<Index>(workspace.size_bytes())};
}

/// Scores that the tokens of a sequence see together, of tokens that see `reach` at most.
inline double scores_seen(Index tokens, Index reach) {
  const auto most = static_cast<double>(reach);
  if (tokens <= reach) return 0.5 * static_cast<double>(tokens) * static_cast<double>(tokens + 1);
  return 0.5 * most * (most + 1) + most * static_cast<double>(tokens - reach);
}

/// `products`: matrix products over the scores of a head that a token sees.
inline rt::Work attention_work(const AttentionShape& shape, double products) {
  const Index reach =
      shape.window != 0 && shape.window < shape.tokens ? shape.window : shape.tokens;
  const double seen = scores_seen(shape.tokens, reach) - scores_seen(shape.first, reach);
  const double scores = static_cast<double>(shape.sequences * shape.heads) * seen;
  // Two sizes in one number; where the second is 0, the first.
  const auto both = [](Index first, Index second) { return first + (second << 32); };
  // Of a sequence that grows, not a size of its own for every token.
  const Index tokens = shape.first == 0 ? shape.tokens : attention_row_stride(shape.tokens);
  return {products * 2 * scores * static_cast<double>(shape.head_size),
          {both(shape.sequences, shape.first == 0 ? 0 : shape.queries()),
           both(tokens, reach == shape.tokens ? 0 : reach),
           both(shape.heads, shape.group() == 1 ? 0 : shape.key_heads()), shape.head_size}};
}

inline void require_attention_sizes(const AttentionShape& shape, Index qkv, Index out) {
  const Index tokens = shape.sequences * shape.tokens;
  require(shape.kv_heads == 0 || shape.heads % shape.kv_heads == 0,
          "heads that share heads of keys evenly");
  // One sequence may leave room for tokens to come.
  require(qkv == tokens * shape.qkv_width() ||
              (shape.sequences == 1 && qkv > tokens * shape.qkv_width()),
          "queries, keys and values of every token");
  require(out == shape.sequences * shape.queries() * shape.width(), "results of every query");
}

struct AttentionForward : Operation {
  static constexpr Symbol kSymbol{"attention_forward", 1};
  using Variants = ByActivation;
  using Args = AttentionShape;
  template <class As>
  struct Buffers {
    Reads<As, Activation> qkv;
    Writes<As, Activation> out;
    Writes<As, float> logsumexp;
    WorkSpace<As, float> workspace;  ///< of attention_task_workspace()
  };

  static void check(const Buffers<AtSubmission>& b, const Args& shape) {
    require_attention_sizes(shape, b.qkv.count(), b.out.count());
  }
  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& shape) {
    return attention_work(shape, 2);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    attention_forward_cpu<kIsa>(task.args, task.qkv.data(), task.out.data(), task.logsumexp.data(),
                                task.workspace.data());
  }
  static const char* cuda(const CudaContext& context, const auto& task) {
    const auto start = [&](auto* kernel, const auto&... scores) {
      return kernel(context, type_of(task.qkv), task.args, task.qkv.data(), task.out.data(),
                    task.logsumexp.data(), scores...);
    };
    if (cudnn_is_chosen())
      if (const CudnnStart by = start(&attention_forward_cudnn); by.taken) return by.fault;
    return is_tiled(task.args) ? start(&attention_forward_cuda)
                               : start(&attention_forward_batched_cuda, scores_in(task.workspace));
  }
};

struct AttentionBackward : Operation {
  static constexpr Symbol kSymbol{"attention_backward", 1};
  using Variants = ByActivation;
  using Args = AttentionShape;
  template <class As>
  struct Buffers {
    Reads<As, Activation> qkv;
    Reads<As, Activation> out;
    Reads<As, float> logsumexp;
    Reads<As, Activation> dout;
    Writes<As, Activation> dqkv;
    WorkSpace<As, float> workspace;  ///< of attention_task_workspace()
  };

  static void check(const Buffers<AtSubmission>& b, const Args& shape) {
    require(shape.first == 0, "results of every token");
    require_attention_sizes(shape, b.qkv.count(), b.out.count());
    require_attention_sizes(shape, b.dqkv.count(), b.dout.count());
  }
  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& shape) {
    return attention_work(shape, 5);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    attention_backward_cpu<kIsa>(task.args, task.qkv.data(), task.out.data(), task.logsumexp.data(),
                                 task.dout.data(), task.dqkv.data(), task.workspace.data());
  }
  static const char* cuda(const CudaContext& context, const auto& task) {
    const auto start = [&](auto* kernel, const auto&... scores) {
      return kernel(context, type_of(task.qkv), task.args, task.qkv.data(), task.out.data(),
                    task.logsumexp.data(), task.dout.data(), task.dqkv.data(), scores...);
    };
    if (cudnn_is_chosen())
      if (const CudnnStart by = start(&attention_backward_cudnn); by.taken) return by.fault;
    return is_tiled(task.args) ? start(&attention_backward_cuda)
                               : start(&attention_backward_batched_cuda, scores_in(task.workspace));
  }
};

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/attention/attention.hpp"
#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/context.hpp"

/// Attention in BF16 on GPUs by NVIDIA's cuDNN, for what it takes; attention_cuda.hpp computes the
/// rest. cuDNN is loaded when it is chosen, and a program runs without it
/// (docs/adr/0061-attention-by-cudnn.md).
namespace dos::codelets {

/// "own": the kernels of this project; "cudnn": cuDNN; "auto": cuDNN where it can be loaded and
/// `capability`, the least of the GPUs at hand (90 for 9.0; 0: there is none), is 90 or more, so
/// that a machine always chooses alike. For all threads, from here on; "own" before the first call.
/// Call while no task runs: both round differently. Throws Error for "cudnn" where it cannot be
/// loaded, and for any other name.
void choose_attention(const std::string& name, int capability);

/// What is chosen, for the record of a run: "cuDNN 9.19.0", or "own kernels"; what tasks since have
/// kept from cuDNN stands behind it: "cuDNN 9.19.0, but by own kernels backward: no plan ...".
std::string gpu_attention();

/// Why cuDNN has not taken tasks in BF16 that it was asked to take, of each pass the first reason
/// since choose_attention(); empty: there was none. The log has a warning of each, too, while cuDNN
/// is chosen.
std::string attention_refusals();

/// Whether cuDNN is chosen.
bool cudnn_is_chosen();

/// Rows of queries that a call of backward has: 128 for each of the 132 multiprocessors of an H100,
/// eight times, since each call loses its start, and what its last blocks leave idle. With 8, 16,
/// 32 and 64 of 128 heads of 2048 tokens a call it reaches 165, 228, 283 and 329 TFLOP/s there
/// (docs/performance/gpu.md).
inline constexpr Index kCudnnRows = Index{8} * 128 * 132;

/// The most device memory that backward by cuDNN is given, of the 80 GB and more that such GPUs
/// have: 64 heads of 2048 tokens fit, and four of 8192 that share keys and values, as in Llama 3.1.
inline constexpr Index kMostCudnnWorkspace = Index{576} << 20;

/// Bytes that cuDNN's deterministic backward takes for a head of queries: the gradients of all its
/// scores in BF16, a sum for each row, and, where heads share keys and values, the gradients of
/// these. Observed of cuDNN 9.19 and 9.28 for compute capability 9.0.
constexpr Index cudnn_bytes_of_head(const AttentionShape& shape) {
  const auto round_up = [](Index count, Index to) { return ceil_div(count, to) * to; };
  const Index shared = shape.group() > 1 ? 4 * shape.tokens * shape.head_size : 0;
  return 2 * round_up(shape.tokens, 64) * round_up(shape.tokens, 128) + 4 * shape.tokens + shared;
}

/// Heads of queries that one call of backward has: whole groups that share keys and values, as many
/// as `bytes` have room for, all at most; 0: not even one group fits.
constexpr Index cudnn_heads_together(const AttentionShape& shape, Index bytes) {
  constexpr Index kBeside = 4096;
  const Index all = shape.sequences * shape.heads;
  if (all == 0 || shape.tokens == 0 || bytes <= kBeside) return 0;
  const Index fit = (bytes - kBeside) / cudnn_bytes_of_head(shape);
  return (fit < all ? fit : all) / shape.group() * shape.group();
}

/// The work space (CudaContext::workspace_bytes) that suits tasks over such sequences, however
/// many: for heads with kCudnnRows, kMostCudnnWorkspace at most. 0 where that does not
/// hold one group of heads: backward is not cuDNN's then.
constexpr Index cudnn_workspace(const AttentionShape& shape) {
  if (shape.heads == 0 || shape.tokens == 0) return 0;
  constexpr Index kBeside = Index{64} << 10;
  const Index groups = ceil_div(ceil_div(kCudnnRows, shape.tokens), shape.group());
  AttentionShape many = shape;
  many.sequences = ceil_div(groups, shape.key_heads());
  const Index most = cudnn_heads_together(many, kMostCudnnWorkspace - kBeside);
  const Index wanted = groups * shape.group();
  const Index heads = wanted < most ? wanted : most;
  return heads == 0 ? 0 : heads * cudnn_bytes_of_head(shape) + kBeside;
}

/// Whether cuDNN has started the task, and, if it has, null or what went wrong. What is not taken
/// has not begun, and attention_refusals() may say why.
struct CudnnStart {
  bool taken = false;
  const char* fault = nullptr;
};

/// attention_forward_cuda (attention_cuda.hpp). Not taken: FP32, first > 0, heads whose elements
/// are no multiple of 8, arrays that are not aligned to 16 bytes, and what cuDNN has no plan for.
/// Whether a task is taken depends on its shape, the alignment of its arrays, the GPU and cuDNN's
/// version alone.
CudnnStart attention_forward_cudnn(const CudaContext& context, DType type,
                                   const AttentionShape& shape, const void* qkv, void* out,
                                   float* logsumexp);

/// attention_backward_cuda (attention_cuda.hpp), by cuDNN's deterministic algorithm, heads in as
/// many calls as the context's workspace makes necessary. Not taken: as forward, sequences of one
/// token, and where the workspace does not hold one group of heads.
CudnnStart attention_backward_cudnn(const CudaContext& context, DType type,
                                    const AttentionShape& shape, const void* qkv, const void* out,
                                    const float* logsumexp, const void* dout, void* dqkv);

/// Makes the plans of both passes, which takes cuDNN seconds the first time, so that no task has
/// to; nothing where cuDNN is not chosen. What it will not take is in attention_refusals()
/// afterwards. Call on the thread that runs such tasks.
void prepare_attention(const CudaContext& context, DType type, const AttentionShape& shape);

}  // namespace dos::codelets

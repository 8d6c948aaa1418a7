// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/attention/attention.hpp"
#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/context.hpp"

namespace dos::codelets {

// Exist only if kHasCudaKernels; start on the context's stream, wait for nothing, and return null
// or what went wrong. All pointers are to device memory. `type`, FP32 or BF16, is that of qkv, out
// and their gradients; statistics and sums are FP32, the weights of a BF16 softmax are rounded to
// BF16 before they meet the values. Results do not depend on timing.

/// The largest head_size; attention_batched_cuda.hpp takes larger ones.
inline constexpr Index kLargestTiledHead = 128;

/// attention_forward_cpu (attention.hpp), without its work space.
const char* attention_forward_cuda(const CudaContext& context, DType type,
                                   const AttentionShape& shape, const void* qkv, void* out,
                                   float* logsumexp);

/// attention_backward_cpu (attention.hpp). The context's workspace holds 4 bytes a token and head;
/// if they do not all fit, the heads are worked on in several launches, those that share keys and
/// values in one.
const char* attention_backward_cuda(const CudaContext& context, DType type,
                                    const AttentionShape& shape, const void* qkv, const void* out,
                                    const float* logsumexp, const void* dout, void* dqkv);

}  // namespace dos::codelets

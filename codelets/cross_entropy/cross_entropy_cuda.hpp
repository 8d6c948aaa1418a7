// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "codelets/cross_entropy/cross_entropy.hpp"
#include "codelets/cuda/compiled.hpp"
#include "codelets/cuda/workspace.hpp"

namespace dos::codelets {

// Exist only if kHasCudaKernels; start on the context's stream, wait for nothing, and return null
// or what went wrong. All pointers are to device memory; logits are FP32 or BF16, sums over a row
// FP32, losses FP64. The order of the additions depends on the sizes alone.

/// cross_entropy_forward_cpu (cross_entropy.hpp).
const char* cross_entropy_forward_cuda(const CudaContext& context, DType type,
                                       const CrossEntropyRows& shape, const void* logits,
                                       const std::int32_t* tokens, double* loss);

/// cross_entropy_forward_backward_cpu (cross_entropy.hpp).
const char* cross_entropy_forward_backward_cuda(const CudaContext& context, DType type,
                                                const CrossEntropyRows& shape, float scale,
                                                void* logits, const std::int32_t* tokens,
                                                double* loss);

/// *mean = (sum of the lanes' losses, in the order given) / tokens; the losses become 0.
const char* mean_loss_cuda(const CudaContext& context, std::span<double* const> lane_losses,
                           Index tokens, double* mean);

}  // namespace dos::codelets

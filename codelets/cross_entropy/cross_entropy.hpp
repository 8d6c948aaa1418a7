// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/types.hpp"
#include "codelets/cuda/context.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// Some rows of the logits of a lane, whose tokens are [sequences, context + 1]. Row r of the lane
/// predicts, from token r % context of sequence r / context, the token behind it; where that is no
/// target (base/target.hpp), the row's loss and gradient are zero, whatever its logits are.
struct CrossEntropyRows {
  Index first_row;   ///< the first row given, counted from the lane's first
  Index rows;        ///< how many are given
  Index context;     ///< rows a sequence
  Index vocabulary;  ///< logits a row
  Index stride;      ///< elements from one row to the next; what lies between is not touched
};

/// Given: logits [rows, vocabulary], float or BF16, from first_row on; the lane's tokens. Adds the
/// rows' negative log-likelihoods, in nats, to *loss.
template <simd::Isa, class T>
void cross_entropy_forward_cpu(const CrossEntropyRows& shape, const T* logits,
                               const std::int32_t* tokens, double* loss);

/// The same, and each row becomes scale * (its softmax - 1 at its target): the gradient of scale *
/// the sum of losses.
template <simd::Isa, class T>
void cross_entropy_forward_backward_cpu(const CrossEntropyRows& shape, float scale, T* logits,
                                        const std::int32_t* tokens, double* loss);

/// On a GPU (cuda/context.hpp).
const char* cross_entropy_forward_cuda(const CudaContext& context, DType type,
                                       const CrossEntropyRows& shape, const void* logits,
                                       const std::int32_t* tokens, double* loss);
const char* cross_entropy_forward_backward_cuda(const CudaContext& context, DType type,
                                                const CrossEntropyRows& shape, float scale,
                                                void* logits, const std::int32_t* tokens,
                                                double* loss);

/// *mean = (sum of the lanes' losses, in the order given) / targets; the losses become 0.
const char* mean_loss_cuda(const CudaContext& context, std::span<double* const> lane_losses,
                           Index targets, double* mean);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/cross_entropy/cross_entropy.hpp"
#include "rt/submitter.hpp"

namespace dos::codelets {

const rt::Codelet& cross_entropy_forward_codelet(DType type);
const rt::Codelet& cross_entropy_forward_backward_codelet(DType type);
const rt::Codelet& mean_loss_codelet();

/// loss[0] += summed negative log-likelihood of the rows; FP64, one element.
void submit_cross_entropy_forward(rt::Submitter& submitter, const CrossEntropyRows& rows,
                                  const rt::Handle& logits, const rt::Handle& tokens,
                                  const rt::Handle& loss, const rt::TaskOptions& options);

/// The same, and logits becomes scale * (softmax - onehot).
void submit_cross_entropy_forward_backward(rt::Submitter& submitter, const CrossEntropyRows& rows,
                                           float scale, const rt::Handle& logits,
                                           const rt::Handle& tokens, const rt::Handle& loss,
                                           const rt::TaskOptions& options);

/// mean[0] = (sum of the lanes' losses, in the order given) / tokens; the lanes' losses return to
/// zero.
void submit_mean_loss(rt::Submitter& submitter, std::span<const rt::Handle* const> lane_losses,
                      Index tokens, const rt::Handle& mean, const rt::TaskOptions& options);

}  // namespace dos::codelets

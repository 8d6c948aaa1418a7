// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/attention_cuda_suite.hpp"

/// The batched kernels of attention on the device of cuda_device.hpp.
namespace dos::test {

/// Scores of so many heads at a time: every head, where there are fewer.
inline constexpr Index kAllHeads = Index{1} << 20;

/// Fills out and logsumexp of the data.
void run_batched_forward(AttentionData& data, Index heads_at_a_time = kAllHeads);

/// Fills dqkv, from what forward has left.
void run_batched_backward(AttentionData& data, Index heads_at_a_time = kAllHeads);

/// Both.
void run_batched(AttentionData& data);

}  // namespace dos::test

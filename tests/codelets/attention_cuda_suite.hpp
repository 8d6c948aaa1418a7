// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "codelets/attention/attention.hpp"
#include "codelets/elements.hpp"

/// What the CUDA kernels of attention must compute, emulated or on a GPU.
namespace dos::test {

struct AttentionData {
  AttentionData(const codelets::AttentionShape& of, DType type, Index shift);

  codelets::AttentionShape shape;
  Elements qkv, dout, out, dqkv;
  std::vector<float> logsumexp;
};

/// Fills out, logsumexp and dqkv of its data.
using AttentionRun = std::function<void(AttentionData&)>;

/// Compares one run with the reference in double precision.
void expect_attention(const AttentionRun& run, const codelets::AttentionShape& shape, DType type,
                      Index shift);

/// The same of the tokens from shape.first on, where `forward` fills out and logsumexp, whose rows
/// are theirs.
void expect_later_attention(const AttentionRun& forward, const codelets::AttentionShape& shape,
                            DType type, Index shift);

/// Compares two runs on the same data with each other: they differ by what both may be off.
void expect_same_attention(const AttentionRun& one, const AttentionRun& other,
                           const codelets::AttentionShape& shape, DType type);

}  // namespace dos::test

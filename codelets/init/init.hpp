// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/bf16.hpp"
#include "base/types.hpp"
#include "codelets/cuda/context.hpp"

namespace dos::codelets {

/// out[i] = value.
void fill_cpu(Index count, float value, float* out);

enum class Distribution : std::uint8_t {
  kNormal,   ///< N(0, spread^2)
  kUniform,  ///< [-spread, spread)
};

/// Elements first_index .. first_index + count - 1 of a tensor of random numbers: element i is
/// spread * Philox(seed).normal(i, stream), or spread * (2 Philox(seed).uniform(i, stream) - 1),
/// whoever computes it.
struct RandomInit {
  std::uint64_t seed;
  std::uint64_t stream;
  Index first_index;
  float spread;
  Distribution distribution = Distribution::kNormal;
};
void init_random_cpu(const RandomInit& init, Index count, float* out);

/// out[i] = x[i] rounded to nearest, ties to even: working parameters from the master ones.
void round_cpu(Index count, const float* x, BF16* out);

/// On a GPU (cuda/context.hpp); `type` is that of `out`.
const char* fill_cuda(const CudaContext& context, DType type, Index count, float value, void* out);

/// The random words are those of the CPU; logarithm and cosine of normal numbers are CUDA's, whose
/// last FP64 bit may differ, and so may, rarely, the FP32 result's.
const char* init_random_cuda(const CudaContext& context, DType type, const RandomInit& init,
                             Index count, void* out);
const char* round_cuda(const CudaContext& context, Index count, const float* x, BF16* out);

}  // namespace dos::codelets

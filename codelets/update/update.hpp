// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/bf16.hpp"
#include "base/types.hpp"
#include "codelets/cuda/context.hpp"
#include "codelets/simd/isa.hpp"
#include "codelets/update/rule.hpp"

namespace dos::codelets {

/// Which update: the number of the rule in AllRules, and the types of the gradient and of the
/// working parameters, each kF32 or kBF16. With working = kF32 the parameters are the working ones.
struct UpdateKind {
  Index rule;
  DType gradient;
  DType working;

  bool operator==(const UpdateKind&) const = default;
};

/// The arrays of one update, of `count` elements each.
struct UpdateArrays {
  Index count;
  const float* clip;  ///< one factor
  const void* g;      ///< float or BF16
  float* p;
  float* states[kMostStates];  ///< as many as the rule has
  BF16* w;                     ///< null when the parameters are the working ones
  /// What p and states are made of, in memory of its own; null: of themselves.
  const float* old_p = nullptr;
  const float* old_states[kMostStates] = {};

  [[nodiscard]] DOS_HD bool in_place() const { return old_p == nullptr; }
};

/// One step: p and states with the gradient g * clip, then w = p rounded to nearest, ties to even.
/// A NaN clip factor leaves p and states as they are, or makes them what the old ones are, bit for
/// bit; w is then rounded from p as ever. `step` is the rule's Step. Not a bit depends on whether p
/// and states are made in place.
using UpdateKernel = void (*)(const void* step, const UpdateArrays& arrays);

/// On a GPU (cuda/context.hpp); the types are the kind's.
const char* update_cuda(const CudaContext& context, const UpdateKind& kind, const StepBytes& step,
                        const UpdateArrays& arrays);

/// Bytes that the kernel reads and writes for one parameter.
constexpr Index bytes_per_parameter(const UpdateKind& kind, Index states) {
  const Index working = kind.working == DType::kF32 ? 0 : size_of(kind.working);
  return 2 * size_of(DType::kF32) * (1 + states) + size_of(kind.gradient) + working;
}

/// The kernel of a kind for one instruction set.
template <simd::Isa>
UpdateKernel update_cpu(const UpdateKind& kind);

}  // namespace dos::codelets

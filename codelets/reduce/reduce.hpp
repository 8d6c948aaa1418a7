// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "base/types.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// Sum of x[i]^2, accumulated in FP64; T is float or BF16. Infinite or NaN when an element is.
template <simd::Isa, class T>
double sum_of_squares_cpu(Index count, const T* x);

/// What the updates of one step need to know of the whole gradient.
struct ClipResult {
  double norm;   ///< global L2 norm before clipping
  float factor;  ///< min(1, max_norm / (norm + 1e-6)), or NaN: the update must be skipped
};

/// Combines the subgroups' sums of squares, in the order given. max_norm <= 0 means no clipping. A
/// norm that is not finite gives factor NaN, and so does `previous` NaN: once a step is skipped,
/// all later ones are, so that the parameters stay what they were before the first bad gradient.
ClipResult combine_norm(std::span<const double> sums, float max_norm, float previous);

}  // namespace dos::codelets

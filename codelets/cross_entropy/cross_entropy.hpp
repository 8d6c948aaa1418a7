// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/types.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::codelets {

/// Rows first_row .. first_row + rows - 1 of a lane's [sequences * context, vocabulary] logits.
/// Row r belongs to token r % context of sequence r / context; its target is the following token,
/// tokens[sequence, context + 1].
struct CrossEntropyRows {
  Index first_row;
  Index rows;
  Index context;
  Index vocabulary;
  Index stride;  ///< elements from the start of one row of logits to the next; what lies behind a
                 ///< row's vocabulary is neither read nor written
};

/// Adds the rows' summed negative log-likelihood (nats) to *loss. `logits` points to first_row; T
/// is float or BF16.
template <simd::Isa, class T>
void cross_entropy_forward_cpu(const CrossEntropyRows& shape, const T* logits,
                               const std::int32_t* tokens, double* loss);

/// The same, and replaces logits by scale * d(sum of losses)/d(logits) = scale * (softmax -
/// onehot).
template <simd::Isa, class T>
void cross_entropy_forward_backward_cpu(const CrossEntropyRows& shape, float scale, T* logits,
                                        const std::int32_t* tokens, double* loss);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "rt/submitter.hpp"

namespace dos::codelets {

const rt::Codelet& sum_of_squares_codelet(DType type);
const rt::Codelet& combine_norm_codelet();

/// sum[0] = sum of x[i]^2; FP64, one element.
void submit_sum_of_squares(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& sum,
                           const rt::TaskOptions& options);

/// norm[0] (FP64) = square root of the sums' total; factor[0] (FP32) = clip factor of this step.
/// The value that factor holds before is the previous step's: NaN stays NaN (reduce.hpp).
void submit_combine_norm(rt::Submitter& submitter, std::span<const rt::Handle* const> sums,
                         float max_norm, const rt::Handle& factor, const rt::Handle& norm,
                         const rt::TaskOptions& options);

}  // namespace dos::codelets

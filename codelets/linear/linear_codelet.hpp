// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "codelets/by_type.hpp"
#include "codelets/matrix/refs.hpp"
#include "rt/submitter.hpp"

/// Matrix products with weights w[out, in], in row blocks. Activations are [tokens, features],
/// row-major.
namespace dos::codelets {

const rt::Codelet& linear_forward_codelet(DType type);
const rt::Codelet& linear_residual_forward_codelet(DType type);
const rt::Codelet& linear_backward_data_codelet(DType type);
const rt::Codelet& linear_backward_weight_codelet(const GradientTypes& types);
const rt::Codelet& linear_accumulate_weight_codelet(const GradientTypes& types);
const rt::Codelet& bias_backward_codelet(const GradientTypes& types);
const rt::Codelet& logits_forward_codelet(DType type);
const rt::Codelet& logits_backward_data_codelet(DType type);

/// y = x w^T + bias.
void submit_linear_forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                           const MatrixRef& w, const SliceRef& bias, const rt::Handle& y,
                           const rt::TaskOptions& options);

/// y = x w^T + bias + residual.
void submit_linear_residual_forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                                    const MatrixRef& w, const SliceRef& bias,
                                    const rt::Handle& residual, const rt::Handle& y,
                                    const rt::TaskOptions& options);

/// dx = dy w.
void submit_linear_backward_data(rt::Submitter& submitter, Index tokens, const rt::Handle& dy,
                                 const MatrixRef& w, const rt::Handle& dx,
                                 const rt::TaskOptions& options);

/// Rows of an activation that a task works on.
struct RowRange {
  Index first;
  Index count;
};

/// dw (+)= dy^T x, one task a row block. Row i of dy belongs to row rows.first + i of x.
void submit_linear_backward_weight(rt::Submitter& submitter, const RowRange& rows,
                                   const RowsRef& dy, const rt::Handle& x, bool accumulate,
                                   const MatrixRef& dw, const rt::TaskOptions& options);

/// dbias (+)= column sums of dy[tokens, out].
void submit_bias_backward(rt::Submitter& submitter, Index tokens, Index out, const rt::Handle& dy,
                          bool accumulate, const SliceRef& dbias, const rt::TaskOptions& options);

/// Rows of the vocabulary projection: logits[i] = w x[rows.first + i].
void submit_logits_forward(rt::Submitter& submitter, const RowRange& rows, const rt::Handle& x,
                           const MatrixRef& w, const RowsRef& logits,
                           const rt::TaskOptions& options);

/// dx[rows.first + i] = w^T dlogits[i]; the other rows of dx stay.
void submit_logits_backward_data(rt::Submitter& submitter, const RowRange& rows,
                                 const RowsRef& dlogits, const MatrixRef& w, const rt::Handle& dx,
                                 const rt::TaskOptions& options);

}  // namespace dos::codelets

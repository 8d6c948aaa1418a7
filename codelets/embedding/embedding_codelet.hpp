// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/by_type.hpp"
#include "codelets/embedding/embedding.hpp"
#include "codelets/matrix/refs.hpp"
#include "rt/submitter.hpp"

/// Token and position tables, [rows, width] in row blocks; tokens are I32 [sequences, context + 1].
namespace dos::codelets {

const rt::Codelet& embedding_forward_codelet(DType type);
const rt::Codelet& embedding_backward_token_codelet(const GradientTypes& types);
const rt::Codelet& embedding_backward_position_codelet(const GradientTypes& types);
const rt::Codelet& embedding_accumulate_position_codelet(const GradientTypes& types);

void submit_embedding_forward(rt::Submitter& submitter, const EmbeddingShape& shape,
                              const rt::Handle& tokens, const MatrixRef& token_table,
                              const MatrixRef& position_table, const rt::Handle& y,
                              const rt::TaskOptions& options);

/// Adds to the table's gradient, one task a row block.
void submit_embedding_backward_token(rt::Submitter& submitter, const EmbeddingShape& shape,
                                     const rt::Handle& tokens, const rt::Handle& dy,
                                     const MatrixRef& gradient, const rt::TaskOptions& options);

/// (+)= the table's gradient, one task a row block.
void submit_embedding_backward_position(rt::Submitter& submitter, const EmbeddingShape& shape,
                                        const rt::Handle& dy, bool accumulate,
                                        const MatrixRef& gradient, const rt::TaskOptions& options);

}  // namespace dos::codelets

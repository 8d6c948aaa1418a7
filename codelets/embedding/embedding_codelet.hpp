// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/embedding/embedding.hpp"
#include "codelets/operation.hpp"

/// Token and position tables, [rows, width] in row blocks; tokens are [sequences, context + 1].
namespace dos::codelets {

/// `rows` of a table.
inline rt::Work embedding_work(const EmbeddingShape& shape, Index rows) {
  const double elements = static_cast<double>(shape.sequences) *
                          static_cast<double>(shape.context) * static_cast<double>(shape.width);
  return {elements, {shape.sequences, shape.context, shape.width, rows}};
}

struct EmbeddingForward : Operation {
  static constexpr Symbol kSymbol{"embedding_forward", 1};
  using Variants = ByActivation;
  using Args = EmbeddingShape;
  template <class As>
  struct Buffers {
    Reads<As, std::int32_t> tokens;
    Writes<As, Activation> y;
    ReadsMatrix<As, Activation> token_table;
    ReadsMatrix<As, Activation> position_table;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& shape) {
    return embedding_work(shape, b.token_table.blocking().rows);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    embedding_forward_cpu<kIsa>(task.args, task.tokens.data(), task.token_table.rows(),
                                task.position_table.rows(), task.y.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return embedding_forward_cuda(context, type_of(task.y), task.args, task.tokens.data(),
                                  task.token_table.untyped(), task.position_table.untyped(),
                                  task.y.data());
  }
};

/// The same without positions.
struct TokenEmbeddingForward : Operation {
  static constexpr Symbol kSymbol{"token_embedding_forward", 1};
  using Variants = ByActivation;
  using Args = EmbeddingShape;
  template <class As>
  struct Buffers {
    Reads<As, std::int32_t> tokens;
    Writes<As, Activation> y;
    ReadsMatrix<As, Activation> table;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& shape) {
    return embedding_work(shape, b.table.blocking().rows);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    embedding_forward_cpu<kIsa>(task.args, task.tokens.data(), task.table.rows(), {},
                                task.y.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return embedding_forward_cuda(context, type_of(task.y), task.args, task.tokens.data(),
                                  task.table.untyped(), {}, task.y.data());
  }
};

/// (+)= the token table's gradient, one task a row block.
template <bool kAccumulates>
struct EmbeddingToken : Operation {
  static constexpr Symbol kSymbol{
      kAccumulates ? "embedding_backward_token" : "embedding_overwrite_token", 1};
  using Variants = ByGradient;
  using Args = EmbeddingShape;
  template <class As>
  struct Buffers {
    Reads<As, std::int32_t> tokens;
    Reads<As, Activation> dy;
    SumsBlock<As, kAccumulates, Gradient> dtable;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& shape) {
    return embedding_work(shape, b.dtable.sent().rows);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    embedding_backward_token_cpu<kIsa>(task.args, {task.dtable.first_row, task.dtable.rows},
                                       task.tokens.data(), task.dy.data(), kAccumulates,
                                       task.dtable.elements);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return embedding_backward_token_cuda(context, type_of(task.dy), task.dtable.type(), task.args,
                                         {task.dtable.first_row, task.dtable.rows},
                                         task.tokens.data(), task.dy.data(), kAccumulates,
                                         task.dtable.elements);
  }
};

using EmbeddingOverwriteToken = EmbeddingToken<false>;
using EmbeddingBackwardToken = EmbeddingToken<true>;

/// The one or the other.
inline void submit_token_gradient(rt::Submitter& submitter, bool accumulate,
                                  const EmbeddingBackwardToken::Buffers<AtSubmission>& b,
                                  const EmbeddingShape& shape, const rt::TaskOptions& options) {
  if (accumulate)
    submit<EmbeddingBackwardToken>(submitter, b, shape, options);
  else
    submit<EmbeddingOverwriteToken>(
        submitter, {.tokens = b.tokens, .dy = b.dy, .dtable = b.dtable.matrix()}, shape, options);
}

/// (+)= the position table's gradient, one task a row block.
template <bool kAccumulates>
struct EmbeddingPosition : Operation {
  static constexpr Symbol kSymbol{
      kAccumulates ? "embedding_accumulate_position" : "embedding_backward_position", 1};
  using Variants = ByGradient;
  using Args = EmbeddingShape;
  template <class As>
  struct Buffers {
    Reads<As, Activation> dy;
    SumsBlock<As, kAccumulates, Gradient> dtable;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& shape) {
    return embedding_work(shape, b.dtable.sent().rows);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    embedding_backward_position_cpu<kIsa>(task.args, {task.dtable.first_row, task.dtable.rows},
                                          task.dy.data(), kAccumulates, task.dtable.elements);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return embedding_backward_position_cuda(context, type_of(task.dy), task.dtable.type(),
                                            task.args, {task.dtable.first_row, task.dtable.rows},
                                            task.dy.data(), kAccumulates, task.dtable.elements);
  }
};
using EmbeddingBackwardPosition = EmbeddingPosition<false>;
using EmbeddingAccumulatePosition = EmbeddingPosition<true>;

}  // namespace dos::codelets

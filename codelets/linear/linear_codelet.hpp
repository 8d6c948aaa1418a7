// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/linear/linear.hpp"
#include "codelets/operation.hpp"

/// Matrix products with weights w[out, in], in row blocks. Activations are [tokens, features],
/// row-major.
namespace dos::codelets {

/// Rows of an activation that a task works on.
struct RowRange {
  Index first;
  Index count;
};

/// The rows, and the elements from the start of one row to the next of the array beside them: of
/// logits, or of the gradients dy.
struct StridedRows {
  RowRange rows;
  Index stride;
};

/// Of so many rows with a weight, or a block of one.
inline rt::Work product_work(Index rows, const auto& weight) {
  const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(weight.rows) *
                       static_cast<double>(weight.columns);
  return {flops, {rows, weight.rows, weight.columns}};
}

struct LinearTokens {
  Index tokens;
};

/// y = x w^T + bias.
struct LinearForward : Operation {
  static constexpr Symbol kSymbol{"linear_forward", 1};
  using Variants = ByActivation;
  using Args = LinearTokens;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    ReadsSlice<As, Activation> bias;
    Writes<As, Activation> y;
    ReadsMatrix<As, Activation> w;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(args.tokens, b.w.blocking());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    linear_forward_cpu<kIsa>(task.args.tokens, task.x.data(), task.w.rows(), task.bias.data(),
                             nullptr, task.y.data(), task.w.blocking.rows);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return linear_forward_cuda(context, type_of(task.x), task.args.tokens, task.x.data(),
                               task.w.untyped(), task.bias.data(), nullptr, task.y.data(),
                               task.w.blocking.rows);
  }
};

/// y = x w^T + bias + residual.
struct LinearResidualForward : Operation {
  static constexpr Symbol kSymbol{"linear_residual_forward", 1};
  using Variants = ByActivation;
  using Args = LinearTokens;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    ReadsSlice<As, Activation> bias;
    Reads<As, Activation> residual;
    Writes<As, Activation> y;
    ReadsMatrix<As, Activation> w;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(args.tokens, b.w.blocking());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    linear_forward_cpu<kIsa>(task.args.tokens, task.x.data(), task.w.rows(), task.bias.data(),
                             task.residual.data(), task.y.data(), task.w.blocking.rows);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return linear_forward_cuda(context, type_of(task.x), task.args.tokens, task.x.data(),
                               task.w.untyped(), task.bias.data(), task.residual.data(),
                               task.y.data(), task.w.blocking.rows);
  }
};

/// y = x w^T.
struct ProductForward : Operation {
  static constexpr Symbol kSymbol{"product_forward", 1};
  using Variants = ByActivation;
  using Args = LinearTokens;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    Writes<As, Activation> y;
    ReadsMatrix<As, Activation> w;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(args.tokens, b.w.blocking());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    linear_forward_cpu<kIsa>(task.args.tokens, task.x.data(), task.w.rows(), nullptr, nullptr,
                             task.y.data(), task.w.blocking.rows);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return linear_forward_cuda(context, type_of(task.x), task.args.tokens, task.x.data(),
                               task.w.untyped(), nullptr, nullptr, task.y.data(),
                               task.w.blocking.rows);
  }
};

/// y = x w^T + residual.
struct ProductResidualForward : Operation {
  static constexpr Symbol kSymbol{"product_residual_forward", 1};
  using Variants = ByActivation;
  using Args = LinearTokens;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    Reads<As, Activation> residual;
    Writes<As, Activation> y;
    ReadsMatrix<As, Activation> w;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(args.tokens, b.w.blocking());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    linear_forward_cpu<kIsa>(task.args.tokens, task.x.data(), task.w.rows(), nullptr,
                             task.residual.data(), task.y.data(), task.w.blocking.rows);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return linear_forward_cuda(context, type_of(task.x), task.args.tokens, task.x.data(),
                               task.w.untyped(), nullptr, task.residual.data(), task.y.data(),
                               task.w.blocking.rows);
  }
};

/// dx = dy w.
struct LinearBackwardData : Operation {
  static constexpr Symbol kSymbol{"linear_backward_data", 1};
  using Variants = ByActivation;
  using Args = LinearTokens;
  template <class As>
  struct Buffers {
    Reads<As, Activation> dy;
    Writes<As, Activation> dx;
    ReadsMatrix<As, Activation> w;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(args.tokens, b.w.blocking());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    linear_backward_data_cpu<kIsa>(task.args.tokens, task.dy.data(), task.w.blocking.rows,
                                   task.w.rows(), task.dx.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return linear_backward_data_cuda(context, type_of(task.dy), task.args.tokens, task.dy.data(),
                                     task.w.blocking.rows, task.w.untyped(), task.dx.data());
  }
};

/// dw (+)= dy^T x, one task a row block. Row i of dy belongs to row rows.first + i of x.
template <bool kAccumulates>
struct LinearWeight : Operation {
  static constexpr Symbol kSymbol{
      kAccumulates ? "linear_accumulate_weight" : "linear_backward_weight", 1};
  using Variants = ByGradient;
  using Args = StridedRows;
  template <class As>
  struct Buffers {
    Reads<As, Activation> dy;
    Reads<As, Activation> x;
    SumsBlock<As, kAccumulates, Gradient> dw;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(args.rows.count, b.dw.sent());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    linear_backward_weight_cpu<kIsa>(block_of(task), task.dy.data(), x_of(task), kAccumulates,
                                     task.dw.elements);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return linear_backward_weight_cuda(context, type_of(task.dy), task.dw.type(), block_of(task),
                                       task.dy.data(), x_of(task), kAccumulates, task.dw.elements);
  }

 private:
  static LinearWeightBlock block_of(const auto& task) {
    return {.tokens = task.args.rows.count,
            .in = task.dw.columns,
            .dy_stride = task.args.stride,
            .first_row = task.dw.first_row,
            .rows = task.dw.rows};
  }
  static auto x_of(const auto& task) {
    return task.x.data() + task.args.rows.first * task.dw.columns;
  }
};
using LinearBackwardWeight = LinearWeight<false>;
using LinearAccumulateWeight = LinearWeight<true>;

/// The one or the other.
inline void submit_linear_weight(rt::Submitter& submitter, bool accumulate,
                                 const LinearBackwardWeight::Buffers<AtSubmission>& b,
                                 const StridedRows& rows, const rt::TaskOptions& options) {
  if (accumulate)
    submit<LinearAccumulateWeight>(submitter, {.dy = b.dy, .x = b.x, .dw = b.dw.matrix()}, rows,
                                   options);
  else
    submit<LinearBackwardWeight>(submitter, b, rows, options);
}

/// dbias (+)= column sums of dy[tokens, out].
struct BiasBackward : Operation {
  static constexpr Symbol kSymbol{"bias_backward", 1};
  using Variants = ByGradient;
  struct Args {
    Index tokens;
    Index out;
    bool accumulate;
  };
  template <class As>
  struct Buffers {
    Reads<As, Activation> dy;
    UpdatesSlice<As, Gradient> dbias;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& args) {
    return {static_cast<double>(args.tokens * args.out), {args.tokens, args.out}};
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    const auto& [tokens, out, accumulate] = task.args;
    bias_backward_cpu<kIsa>(tokens, out, task.dy.data(), accumulate, task.dbias.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    const auto& [tokens, out, accumulate] = task.args;
    return bias_backward_cuda(context, type_of(task.dy), type_of(task.dbias), tokens, out,
                              task.dy.data(), accumulate, task.dbias.data());
  }
};

/// Rows of the vocabulary projection: logits[i] = w x[rows.first + i].
struct LogitsForward : Operation {
  static constexpr Symbol kSymbol{"logits_forward", 2};
  using Variants = ByActivation;
  using Args = StridedRows;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    Updates<As, Activation> logits;
    ReadsMatrix<As, Activation> w;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(args.rows.count, b.w.blocking());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    linear_forward_cpu<kIsa>(task.args.rows.count, x_of(task), task.w.rows(), nullptr, nullptr,
                             task.logits.data(), task.args.stride);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return linear_forward_cuda(context, type_of(task.x), task.args.rows.count, x_of(task),
                               task.w.untyped(), nullptr, nullptr, task.logits.data(),
                               task.args.stride);
  }

 private:
  static auto x_of(const auto& task) {
    return task.x.data() + task.args.rows.first * task.w.blocking.columns;
  }
};

/// dx[rows.first + i] = w^T dlogits[i]; the other rows of dx stay.
struct LogitsBackwardData : Operation {
  static constexpr Symbol kSymbol{"logits_backward_data", 2};
  using Variants = ByActivation;
  using Args = StridedRows;
  template <class As>
  struct Buffers {
    Reads<As, Activation> dlogits;
    Updates<As, Activation> dx;
    ReadsMatrix<As, Activation> w;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(args.rows.count, b.w.blocking());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    linear_backward_data_cpu<kIsa>(task.args.rows.count, task.dlogits.data(), task.args.stride,
                                   task.w.rows(), dx_of(task));
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return linear_backward_data_cuda(context, type_of(task.dx), task.args.rows.count,
                                     task.dlogits.data(), task.args.stride, task.w.untyped(),
                                     dx_of(task));
  }

 private:
  static auto dx_of(const auto& task) {
    return task.dx.data() + task.args.rows.first * task.w.blocking.columns;
  }
};

}  // namespace dos::codelets

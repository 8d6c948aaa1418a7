// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <type_traits>

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

/// The same of a product that is multiplied by a number.
struct ScaledTokens : LinearTokens {
  float scale = 1;
};

/// Which rows of y a product makes, of as many of x: all, or some of a longer y.
template <bool kOfRows, class All>
using ResultRows = std::conditional_t<kOfRows, RowRange, All>;
inline RowRange rows_of(const LinearTokens& args) {
  return {0, args.tokens};
}
inline RowRange rows_of(const RowRange& args) {
  return args;
}
inline float scale_of(const auto& /*args*/) {
  return 1;
}
inline float scale_of(const ScaledTokens& args) {
  return args.scale;
}

/// In place of a bias or a residual that is not there: a pointer of its type.
template <class T>
const T* no_element(std::span<const T> /*x*/) {
  return nullptr;
}

/// y[rows] = scale x w^T + bias + residual, of which the last two may be null.
struct ForwardProduct {
  template <simd::Isa kIsa>
  static void cpu(const auto& task, const auto* bias, const auto* residual) {
    const RowRange rows = rows_of(task.args);
    auto* y = task.y.data() + rows.first * task.w.blocking.rows;
    if (rows.count == 1)
      linear_row_cpu<kIsa>(task.x.data(), task.w.rows(), bias, residual, y, scale_of(task.args));
    else
      linear_forward_cpu<kIsa>(rows.count, task.x.data(), task.w.rows(), bias, residual, y,
                               task.w.blocking.rows, scale_of(task.args));
  }
  static auto cuda(const CudaContext& context, const auto& task, const void* bias,
                   const void* residual) {
    const RowRange rows = rows_of(task.args);
    return linear_forward_cuda(context, type_of(task.x), rows.count, task.x.data(),
                               task.w.untyped(), bias, residual,
                               task.y.data() + rows.first * task.w.blocking.rows,
                               task.w.blocking.rows, scale_of(task.args));
  }
};

/// y = x w^T + bias.
template <bool kOfRows>
struct LinearForwardTo : Operation {
  static constexpr Symbol kSymbol{kOfRows ? "linear_forward_rows" : "linear_forward", 1};
  using Variants = ByActivation;
  using Args = ResultRows<kOfRows, LinearTokens>;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    ReadsSlice<As, Activation> bias;
    Sums<As, kOfRows, Activation> y;
    ReadsMatrix<As, Activation> w;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(rows_of(args).count, b.w.blocking());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    ForwardProduct::cpu<kIsa>(task, task.bias.data(), no_element(task.x));
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return ForwardProduct::cuda(context, task, task.bias.data(), nullptr);
  }
};
using LinearForward = LinearForwardTo<false>;
using LinearForwardRows = LinearForwardTo<true>;

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
    ForwardProduct::cpu<kIsa>(task, task.bias.data(), task.residual.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return ForwardProduct::cuda(context, task, task.bias.data(), task.residual.data());
  }
};

/// y = scale x w^T; without a scale where rows are named.
template <bool kOfRows>
struct ProductForwardTo : Operation {
  static constexpr Symbol kSymbol{kOfRows ? "product_forward_rows" : "product_forward", 1};
  using Variants = ByActivation;
  using Args = ResultRows<kOfRows, ScaledTokens>;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    Sums<As, kOfRows, Activation> y;
    ReadsMatrix<As, Activation> w;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(rows_of(args).count, b.w.blocking());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    ForwardProduct::cpu<kIsa>(task, no_element(task.x), no_element(task.x));
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return ForwardProduct::cuda(context, task, nullptr, nullptr);
  }
};
using ProductForward = ProductForwardTo<false>;
using ProductForwardRows = ProductForwardTo<true>;

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
    ForwardProduct::cpu<kIsa>(task, no_element(task.x), task.residual.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return ForwardProduct::cuda(context, task, nullptr, task.residual.data());
  }
};

/// dx (+)= dy w.
template <bool kAccumulates>
struct LinearData : Operation {
  static constexpr Symbol kSymbol{
      kAccumulates ? "linear_add_backward_data" : "linear_backward_data", 1};
  using Variants = ByActivation;
  using Args = LinearTokens;
  template <class As>
  struct Buffers {
    Reads<As, Activation> dy;
    Sums<As, kAccumulates, Activation> dx;
    ReadsMatrix<As, Activation> w;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(args.tokens, b.w.blocking());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    linear_backward_part_cpu<kIsa>(part_of(task), task.dy.data(), task.w.rows(),
                                   {.accumulate = kAccumulates}, task.dx.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return linear_backward_part_cuda(context, type_of(task.dy), part_of(task), task.dy.data(),
                                     task.w.untyped(), {.accumulate = kAccumulates},
                                     task.dx.data());
  }

 private:
  static LinearPart part_of(const auto& task) {
    const RowBlocking& w = task.w.blocking;
    return {task.args.tokens, 0, w.rows, w.columns, w.rows};
  }
};
using LinearBackwardData = LinearData<false>;
using LinearAddBackwardData = LinearData<true>;

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
            .rows = task.dw.rows,
            .x_stride = task.dw.columns};
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
    // A lane of one token; a last row of many is made as those before it.
    if (std::ssize(task.x) == task.w.blocking.columns)
      linear_row_cpu<kIsa>(task.x.data(), task.w.rows(), nullptr, nullptr, task.logits.data());
    else
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

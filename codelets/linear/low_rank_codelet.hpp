// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>

#include "codelets/linear/linear_codelet.hpp"

/// Adapters of low rank (LoRA, arXiv 2106.09685) of parts of a product y[tokens, out]: part k of
/// them, columns first .. first + rows - 1, has a pair of matrices. What lies between the two is
/// one row of `count` times `rank` numbers a token,
///
///   between = scale x down^T,   y_k += between_k up_k^T
///
/// with down[count rank, in] and up[sum of rows, rank], the pairs one behind the other, in row
/// blocks. The product with `down` and its way back are those of linear_codelet.hpp.
namespace dos::codelets {

struct LowRankPart {
  Index first;
  Index rows;
};

struct LowRankShape {
  Index rank;
  Index out;
  float scale;
  Index count;
  std::array<LowRankPart, 3> parts{};

  [[nodiscard]] Index width() const { return count * rank; }

  /// Calls use(k, part, row of `up` at which its own begin).
  template <class Use>
  void for_each_part(const Use& use) const {
    Index row = 0;
    for (Index k = 0; k < count; ++k) {
      const LowRankPart& part = parts[static_cast<std::size_t>(k)];
      use(k, part, row);
      row += part.rows;
    }
  }
};

struct LowRankArgs {
  LowRankShape shape;
  RowRange rows;  ///< of y, as many as `between` has

  /// Calls use(product, element of `between`, element of y) for each part's product with its rows
  /// of `up`: it reads and writes from these elements on.
  template <class Use>
  void for_each_product(const Use& use) const {
    shape.for_each_part([&](Index k, const LowRankPart& part, Index row) {
      use(LinearPart{rows.count, row, part.rows, shape.width(), shape.out}, k * shape.rank,
          rows.first * shape.out + part.first);
    });
  }
};

/// Calls use(...) until it returns a fault (cuda/context.hpp), which is left in `fault`.
template <class Use>
auto until_fault(const char*& fault, const Use& use) {
  return [&fault, use](const auto&... arguments) {
    if (fault == nullptr) fault = use(arguments...);
  };
}

/// y[rows] += what adapters give.
struct LowRankForward : Operation {
  static constexpr Symbol kSymbol{"low_rank_forward", 1};
  using Variants = ByActivation;
  using Args = LowRankArgs;
  template <class As>
  struct Buffers {
    Reads<As, Activation> between;
    Updates<As, Activation> y;
    ReadsMatrix<As, Activation> up;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(args.rows.count, b.up.blocking());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    task.args.for_each_product([&](const LinearPart& product, Index between, Index y) {
      linear_add_part_cpu<kIsa>(product, task.between.data() + between, task.up.rows(),
                                task.y.data() + y);
    });
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    const char* fault = nullptr;
    task.args.for_each_product(until_fault(fault, [&](const LinearPart& product, Index between,
                                                      Index y) {
      return linear_add_part_cuda(context, type_of(task.y), product, task.between.data() + between,
                                  task.up.untyped(), task.y.data() + y);
    }));
    return fault;
  }
};

/// The gradient of `between`, times the scale, from dy.
struct LowRankBackwardData : Operation {
  static constexpr Symbol kSymbol{"low_rank_backward_data", 1};
  using Variants = ByActivation;
  using Args = LowRankArgs;
  template <class As>
  struct Buffers {
    Reads<As, Activation> dy;
    Writes<As, Activation> between;
    ReadsMatrix<As, Activation> up;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(args.rows.count, b.up.blocking());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    task.args.for_each_product([&](const LinearPart& product, Index between, Index dy) {
      linear_backward_part_cpu<kIsa>(product, task.dy.data() + dy, task.up.rows(),
                                     {.scale = task.args.shape.scale},
                                     task.between.data() + between);
    });
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    const char* fault = nullptr;
    task.args.for_each_product(
        until_fault(fault, [&](const LinearPart& product, Index between, Index dy) {
          return linear_backward_part_cuda(context, type_of(task.dy), product, task.dy.data() + dy,
                                           task.up.untyped(), {.scale = task.args.shape.scale},
                                           task.between.data() + between);
        }));
    return fault;
  }
};

/// dup_k (+)= dy_k^T between_k, one task a row block, which may hold rows of several parts.
template <bool kAccumulates>
struct LowRankWeight : Operation {
  static constexpr Symbol kSymbol{
      kAccumulates ? "low_rank_accumulate_weight" : "low_rank_backward_weight", 1};
  using Variants = ByGradient;
  using Args = LowRankArgs;
  template <class As>
  struct Buffers {
    Reads<As, Activation> dy;
    Reads<As, Activation> between;
    SumsBlock<As, kAccumulates, Gradient> dup;
  };

  static rt::Work work(const Buffers<AtSubmission>& b, const Args& args) {
    return product_work(args.rows.count, b.dup.sent());
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    for_each_piece_of(task, [&](const LinearWeightBlock& piece, Index k, Index row) {
      linear_backward_weight_cpu<kIsa>(
          piece, task.dy.data() + task.args.rows.first * task.args.shape.out,
          task.between.data() + k * piece.in, kAccumulates, task.dup.elements + row * piece.in);
    });
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    const char* fault = nullptr;
    for_each_piece_of(
        task, until_fault(fault, [&](const LinearWeightBlock& piece, Index k, Index row) {
          return linear_backward_weight_cuda(
              context, type_of(task.dy), task.dup.type(), piece,
              task.dy.data() + task.args.rows.first * task.args.shape.out,
              task.between.data() + k * piece.in, kAccumulates, task.dup.elements + row * piece.in);
        }));
    return fault;
  }

 private:
  /// Calls use(piece, k, its first row in the block) for each part that the block has rows of.
  static void for_each_piece_of(const auto& task, const auto& use) {
    const LowRankShape& shape = task.args.shape;
    const RowRange& rows = task.args.rows;
    const Index begin = task.dup.first_row;
    const Index end = begin + task.dup.rows;
    shape.for_each_part([&](Index k, const LowRankPart& part, Index row) {
      const Index first = std::max(begin, row);
      const Index count = std::min(end, row + part.rows) - first;
      if (count <= 0) return;
      use(LinearWeightBlock{.tokens = rows.count,
                            .in = shape.rank,
                            .dy_stride = shape.out,
                            .first_row = part.first + first - row,
                            .rows = count,
                            .x_stride = shape.width()},
          k, first - begin);
    });
  }
};
using LowRankBackwardWeight = LowRankWeight<false>;
using LowRankAccumulateWeight = LowRankWeight<true>;

/// The one or the other.
inline void submit_low_rank_weight(rt::Submitter& submitter, bool accumulate,
                                   const LowRankBackwardWeight::Buffers<AtSubmission>& b,
                                   const LowRankArgs& args, const rt::TaskOptions& options) {
  if (accumulate)
    submit<LowRankAccumulateWeight>(
        submitter, {.dy = b.dy, .between = b.between, .dup = b.dup.matrix()}, args, options);
  else
    submit<LowRankBackwardWeight>(submitter, b, args, options);
}

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/operation.hpp"
#include "codelets/rmsnorm/rmsnorm.hpp"

/// Root-mean-square normalisation of activations; contract of the buffers in rmsnorm.hpp.
namespace dos::codelets {

/// `passes`: floating-point operations an element, counted in the kernel's formula.
inline rt::Work rmsnorm_work(const RmsNormShape& shape, double passes) {
  return {passes * static_cast<double>(shape.tokens * shape.row()),
          {shape.tokens, shape.width, shape.vectors}};
}

/// y = rmsnorm(x) of whole tokens; statistics[tokens] keeps 1 / root.
struct RmsNormForward : Operation {
  static constexpr Symbol kSymbol{"rmsnorm_forward", 1};
  using Variants = ByActivation;
  using Args = RmsNormShape;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    ReadsSlice<As, Activation> weight;
    Writes<As, Activation> y;
    Writes<As, float> statistics;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& shape) {
    return rmsnorm_work(shape, 4);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    rmsnorm_forward_cpu<kIsa>(task.args, task.x.data(), task.weight.data(), task.y.data(),
                              task.statistics.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return rmsnorm_forward_cuda(context, type_of(task.x), task.args, task.x.data(),
                                task.weight.data(), task.y.data(), task.statistics.data());
  }
};

/// `residual` may be null.
template <simd::Isa kIsa, class T>
void rmsnorm_backward_on_cpu(const auto& task, const T* residual) {
  rmsnorm_backward_cpu<kIsa>(task.args, task.x.data(), task.weight.data(), task.statistics.data(),
                             task.dy.data(), residual, task.dx.data());
}
inline const char* rmsnorm_backward_on_cuda(const CudaContext& context, const auto& task,
                                            const void* residual) {
  return rmsnorm_backward_cuda(context, type_of(task.x), task.args, task.x.data(),
                               task.weight.data(), task.statistics.data(), task.dy.data(), residual,
                               task.dx.data());
}

/// dx = residual + gradient of rmsnorm applied to dy.
struct RmsNormBackward : Operation {
  static constexpr Symbol kSymbol{"rmsnorm_backward", 1};
  using Variants = ByActivation;
  using Args = RmsNormShape;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    ReadsSlice<As, Activation> weight;
    Reads<As, float> statistics;
    Reads<As, Activation> dy;
    Reads<As, Activation> residual;
    Writes<As, Activation> dx;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& shape) {
    return rmsnorm_work(shape, 10);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    rmsnorm_backward_on_cpu<kIsa>(task, task.residual.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return rmsnorm_backward_on_cuda(context, task, task.residual.data());
  }
};

/// The same without residual: the last norm of the model, whose input gradient has no second
/// source.
struct RmsNormBackwardLast : Operation {
  static constexpr Symbol kSymbol{"rmsnorm_backward_last", 1};
  using Variants = ByActivation;
  using Args = RmsNormShape;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    ReadsSlice<As, Activation> weight;
    Reads<As, float> statistics;
    Reads<As, Activation> dy;
    Writes<As, Activation> dx;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& shape) {
    return rmsnorm_work(shape, 9);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    rmsnorm_backward_on_cpu<kIsa>(task, decltype(task.x.data())(nullptr));
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return rmsnorm_backward_on_cuda(context, task, nullptr);
  }
};

struct RmsNormWeight {
  RmsNormShape shape;
  bool accumulate;
};

/// dweight (+)= the gradient of the scale.
struct RmsNormBackwardWeight : Operation {
  static constexpr Symbol kSymbol{"rmsnorm_backward_weight", 1};
  using Variants = ByGradient;
  using Args = RmsNormWeight;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    Reads<As, float> statistics;
    Reads<As, Activation> dy;
    UpdatesSlice<As, Gradient> dweight;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& args) {
    return rmsnorm_work(args.shape, 3);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    rmsnorm_backward_weight_cpu<kIsa>(task.args.shape, task.x.data(), task.statistics.data(),
                                      task.dy.data(), task.args.accumulate, task.dweight.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return rmsnorm_backward_weight_cuda(context, type_of(task.x), type_of(task.dweight),
                                        task.args.shape, task.x.data(), task.statistics.data(),
                                        task.dy.data(), task.args.accumulate, task.dweight.data());
  }
};

/// Norms of the heads of queries and keys, in place: the first vectors of each row of
/// qkv[tokens, y_stride]. `heads`[tokens, vectors * width] keeps what they were, statistics[tokens,
/// vectors] 1 / root of each. qkv may have more rows: those of the tokens begin at `first`.
struct HeadNormForward : Operation {
  static constexpr Symbol kSymbol{"head_norm_forward", 1};
  using Variants = ByActivation;
  struct Args {
    RmsNormShape shape;
    Index first;
  };
  template <class As>
  struct Buffers {
    Updates<As, Activation> qkv;
    ReadsSlice<As, Activation> weight;
    Writes<As, Activation> heads;
    Writes<As, float> statistics;
  };

  static void check(const Buffers<AtSubmission>& b, const Args& args) {
    const RmsNormShape& shape = args.shape;
    require(b.heads.count() == shape.tokens * shape.row(), "heads of every token without gaps");
    require(b.qkv.count() >= (args.first + shape.tokens) * shape.stride_of_y(),
            "rows of every token");
  }
  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& args) {
    return rmsnorm_work(args.shape, 4);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    auto* rows = first_row(task);
    copy_vectors_cpu<kIsa>(task.args.shape, std::as_const(rows), task.heads.data());
    rmsnorm_forward_cpu<kIsa>(task.args.shape, task.heads.data(), task.weight.data(), rows,
                              task.statistics.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    const char* fault = copy_vectors_cuda(context, type_of(task.qkv), task.args.shape,
                                          first_row(task), task.heads.data());
    if (fault != nullptr) return fault;
    return rmsnorm_forward_cuda(context, type_of(task.qkv), task.args.shape, task.heads.data(),
                                task.weight.data(), first_row(task), task.statistics.data());
  }

 private:
  static auto first_row(const auto& task) {
    return task.qkv.data() + task.args.first * task.args.shape.stride_of_y();
  }
};

/// From the gradient of the normalised heads to that of `heads`, in place in dqkv, and the gradient
/// of their scale.
struct HeadNormBackward : Operation {
  static constexpr Symbol kSymbol{"head_norm_backward", 1};
  using Variants = ByGradient;
  using Args = RmsNormWeight;
  template <class As>
  struct Buffers {
    Reads<As, Activation> heads;
    ReadsSlice<As, Activation> weight;
    Reads<As, float> statistics;
    Updates<As, Activation> dqkv;
    UpdatesSlice<As, Gradient> dweight;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& args) {
    return rmsnorm_work(args.shape, 12);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    const RmsNormShape& shape = task.args.shape;
    rmsnorm_backward_weight_cpu<kIsa>(shape, task.heads.data(), task.statistics.data(),
                                      std::as_const(task.dqkv).data(), task.args.accumulate,
                                      task.dweight.data());
    rmsnorm_backward_cpu<kIsa>(shape, task.heads.data(), task.weight.data(), task.statistics.data(),
                               task.dqkv.data(), nullptr, task.dqkv.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    const RmsNormShape& shape = task.args.shape;
    const char* fault = rmsnorm_backward_weight_cuda(
        context, type_of(task.heads), type_of(task.dweight), shape, task.heads.data(),
        task.statistics.data(), task.dqkv.data(), task.args.accumulate, task.dweight.data());
    if (fault != nullptr) return fault;
    return rmsnorm_backward_cuda(context, type_of(task.heads), shape, task.heads.data(),
                                 task.weight.data(), task.statistics.data(), task.dqkv.data(),
                                 nullptr, task.dqkv.data());
  }
};

/// The same without the gradient of the scale, where that is not trained.
struct HeadNormBackwardData : Operation {
  static constexpr Symbol kSymbol{"head_norm_backward_data", 1};
  using Variants = ByActivation;
  using Args = RmsNormShape;
  template <class As>
  struct Buffers {
    Reads<As, Activation> heads;
    ReadsSlice<As, Activation> weight;
    Reads<As, float> statistics;
    Updates<As, Activation> dqkv;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& shape) {
    return rmsnorm_work(shape, 9);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    rmsnorm_backward_cpu<kIsa>(task.args, task.heads.data(), task.weight.data(),
                               task.statistics.data(), task.dqkv.data(), nullptr, task.dqkv.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return rmsnorm_backward_cuda(context, type_of(task.heads), task.args, task.heads.data(),
                                 task.weight.data(), task.statistics.data(), task.dqkv.data(),
                                 nullptr, task.dqkv.data());
  }
};

}  // namespace dos::codelets

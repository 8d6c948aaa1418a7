// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/layernorm/layernorm.hpp"
#include "codelets/operation.hpp"

/// Layer normalisation of [tokens, width] activations; contract of the buffers in layernorm.hpp.
namespace dos::codelets {

/// Learned scale and shift, or their gradients, in one handle.
struct NormRef {
  SliceRef weight;
  SliceRef bias;
};

struct NormShape {
  Index tokens;
  Index width;
};

/// A buffer with scale and shift; the task sees a pointer to each.
template <rt::Mode kAccess, class E>
class NormBuffer : public buffers::Kind<kAccess, E> {
 public:
  struct Sent {
    Index weight;
    Index bias;
  };
  template <class E2>
  struct Parameters {
    E2* weight;
    E2* bias;
    static constexpr DType kType = kTypeOf<E2>;
  };
  template <class T, class G>
  using View = Parameters<buffers::Touched<kAccess, E, T, G>>;

  NormBuffer(const NormRef& norm)
      : handle_(norm.weight.handle), sent_{norm.weight.offset, norm.bias.offset} {
    require(norm.weight.handle == norm.bias.handle, "a norm's weight and bias share a handle");
  }

  [[nodiscard]] buffers::Handles handles() const { return {&handle_, 1}; }
  [[nodiscard]] const Sent& sent() const { return sent_; }
  static Index handles_in(const Sent& /*sent*/) { return 1; }
  template <class T, class G>
  static View<T, G> view(const rt::TaskView& task, Index first, const Sent& sent) {
    auto* all = task.pointer<buffers::Touched<kAccess, E, T, G>>(first);
    return {all + sent.weight, all + sent.bias};
  }

 private:
  const rt::Handle* handle_;
  Sent sent_;
};
template <class As, class E>
using ReadsNorm = Buffer<As, NormBuffer<rt::Mode::kRead, E>>;
template <class As, class E>
using UpdatesNorm = Buffer<As, NormBuffer<rt::Mode::kReadWrite, E>>;

/// `passes`: floating-point operations an element, counted in the kernel's formula.
inline rt::Work norm_work(const NormShape& shape, double passes) {
  return {passes * static_cast<double>(shape.tokens * shape.width), {shape.tokens, shape.width}};
}

/// y = layernorm(x); statistics[tokens, 2] keeps mean and 1/deviation.
struct LayerNormForward : Operation {
  static constexpr Symbol kSymbol{"layernorm_forward", 1};
  using Variants = ByActivation;
  using Args = NormShape;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    ReadsNorm<As, Activation> norm;
    Writes<As, Activation> y;
    Writes<As, float> statistics;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& shape) {
    return norm_work(shape, 8);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    layernorm_forward_cpu<kIsa>(task.args.tokens, task.args.width, task.x.data(), task.norm.weight,
                                task.norm.bias, task.y.data(), task.statistics.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return layernorm_forward_cuda(
        context, type_of(task.x),
        {task.args.tokens, task.args.width, task.x.data(), task.norm.weight}, task.norm.bias,
        task.y.data(), task.statistics.data());
  }
};

/// `residual` may be null.
template <simd::Isa kIsa, class T>
void layernorm_backward_on_cpu(const auto& task, const T* residual) {
  layernorm_backward_cpu<kIsa>(task.args.tokens, task.args.width, task.x.data(), task.norm.weight,
                               task.statistics.data(), task.dy.data(), residual, task.dx.data());
}
inline const char* layernorm_backward_on_cuda(const CudaContext& context, const auto& task,
                                              const void* residual) {
  return layernorm_backward_cuda(
      context, type_of(task.x),
      {task.args.tokens, task.args.width, task.x.data(), task.norm.weight}, task.statistics.data(),
      task.dy.data(), residual, task.dx.data());
}

/// dx = residual + gradient of layernorm applied to dy.
struct LayerNormBackward : Operation {
  static constexpr Symbol kSymbol{"layernorm_backward", 1};
  using Variants = ByActivation;
  using Args = NormShape;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    ReadsNorm<As, Activation> norm;
    Reads<As, float> statistics;
    Reads<As, Activation> dy;
    Reads<As, Activation> residual;
    Writes<As, Activation> dx;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& shape) {
    return norm_work(shape, 13);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    layernorm_backward_on_cpu<kIsa>(task, task.residual.data());
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return layernorm_backward_on_cuda(context, task, task.residual.data());
  }
};

/// The same without residual: the last norm of the model, whose input gradient has no second
/// source.
struct LayerNormBackwardLast : Operation {
  static constexpr Symbol kSymbol{"layernorm_backward_last", 1};
  using Variants = ByActivation;
  using Args = NormShape;
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    ReadsNorm<As, Activation> norm;
    Reads<As, float> statistics;
    Reads<As, Activation> dy;
    Writes<As, Activation> dx;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& shape) {
    return norm_work(shape, 12);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    layernorm_backward_on_cpu<kIsa>(task, decltype(task.x.data()){});
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    return layernorm_backward_on_cuda(context, task, nullptr);
  }
};

/// Gradients of scale and shift, (+)=.
struct LayerNormBackwardWeight : Operation {
  static constexpr Symbol kSymbol{"layernorm_backward_weight", 1};
  using Variants = ByGradient;
  struct Args {
    NormShape shape;
    bool accumulate;
  };
  template <class As>
  struct Buffers {
    Reads<As, Activation> x;
    Reads<As, float> statistics;
    Reads<As, Activation> dy;
    UpdatesNorm<As, Gradient> dnorm;
  };

  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& args) {
    return norm_work(args.shape, 5);
  }
  template <simd::Isa kIsa>
  static void cpu(const auto& task) {
    const auto& [shape, accumulate] = task.args;
    layernorm_backward_weight_cpu<kIsa>(shape.tokens, shape.width, task.x.data(),
                                        task.statistics.data(), task.dy.data(), accumulate,
                                        task.dnorm.weight, task.dnorm.bias);
  }
  static auto cuda(const CudaContext& context, const auto& task) {
    const auto& [shape, accumulate] = task.args;
    return layernorm_backward_weight_cuda(context, type_of(task.x), task.dnorm.kType,
                                          {shape.tokens, shape.width, task.x.data(), nullptr},
                                          task.statistics.data(), task.dy.data(), accumulate,
                                          task.dnorm.weight, task.dnorm.bias);
  }
};

}  // namespace dos::codelets

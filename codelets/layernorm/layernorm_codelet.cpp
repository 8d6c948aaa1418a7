// SPDX-License-Identifier: Apache-2.0
#include "codelets/layernorm/layernorm_codelet.hpp"

#include "base/error.hpp"
#include "codelets/by_type.hpp"
#include "codelets/layernorm/layernorm.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

struct Args {
  NormShape shape;
  Index weight_offset;
  Index bias_offset;
  bool accumulate;
};

Args make_args(const NormShape& shape, const NormRef& norm, bool accumulate = false) {
  require(norm.weight.handle == norm.bias.handle, "a norm's weight and bias share a handle");
  return {shape, norm.weight.offset, norm.bias.offset, accumulate};
}

template <class T>
void forward_task(const rt::TaskView& task) {
  const auto& args = task.args<Args>();
  const T* parameters = task.pointer<const T>(1);
  simd::dispatch([&]<simd::Isa kIsa>() {
    layernorm_forward_cpu<kIsa>(args.shape.tokens, args.shape.width, task.pointer<const T>(0),
                                parameters + args.weight_offset, parameters + args.bias_offset,
                                task.pointer<T>(2), task.pointer<float>(3));
  });
}

/// Buffers: x, parameters, statistics, dy, [residual,] dx.
template <class T, bool kResidual>
void backward_task(const rt::TaskView& task) {
  const auto& args = task.args<Args>();
  const T* residual = kResidual ? task.pointer<const T>(4) : nullptr;
  simd::dispatch([&]<simd::Isa kIsa>() {
    layernorm_backward_cpu<kIsa>(args.shape.tokens, args.shape.width, task.pointer<const T>(0),
                                 task.pointer<const T>(1) + args.weight_offset,
                                 task.pointer<const float>(2), task.pointer<const T>(3), residual,
                                 task.pointer<T>(kResidual ? 5 : 4));
  });
}

template <class T, class G>
void backward_weight_task(const rt::TaskView& task) {
  const auto& args = task.args<Args>();
  G* gradients = task.pointer<G>(3);
  simd::dispatch([&]<simd::Isa kIsa>() {
    layernorm_backward_weight_cpu<kIsa>(
        args.shape.tokens, args.shape.width, task.pointer<const T>(0), task.pointer<const float>(1),
        task.pointer<const T>(2), args.accumulate, gradients + args.weight_offset,
        gradients + args.bias_offset);
  });
}

/// `passes`: floating-point operations an element, counted in the kernel's formula.
rt::Work norm_work(const NormShape& shape, double passes) {
  return {passes * static_cast<double>(shape.tokens * shape.width), {shape.tokens, shape.width}};
}

}  // namespace

const rt::Codelet& layernorm_forward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<forward_task<T>>(
        {.symbol = symbol_of<T>("layernorm_forward", 1),
         .modes = {Mode::kRead, Mode::kRead, Mode::kWrite, Mode::kWrite},
         .tail = {}});
  });
  return codelets[type];
}

const rt::Codelet& layernorm_backward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<backward_task<T, true>>(
        {.symbol = symbol_of<T>("layernorm_backward", 1),
         .modes = {Mode::kRead, Mode::kRead, Mode::kRead, Mode::kRead, Mode::kRead, Mode::kWrite},
         .tail = {}});
  });
  return codelets[type];
}

const rt::Codelet& layernorm_backward_last_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<backward_task<T, false>>(
        {.symbol = symbol_of<T>("layernorm_backward_last", 1),
         .modes = {Mode::kRead, Mode::kRead, Mode::kRead, Mode::kRead, Mode::kWrite},
         .tail = {}});
  });
  return codelets[type];
}

const rt::Codelet& layernorm_backward_weight_codelet(const GradientTypes& types) {
  static const ByGradientTypes codelets([]<class T, class G>() {
    return rt::make_codelet<backward_weight_task<T, G>>(
        {.symbol = symbol_of<T, G>("layernorm_backward_weight", 1),
         .modes = {Mode::kRead, Mode::kRead, Mode::kRead, Mode::kReadWrite},
         .tail = {}});
  });
  return codelets[types];
}

void submit_layernorm_forward(rt::Submitter& submitter, const NormShape& shape, const rt::Handle& x,
                              const NormRef& norm, const rt::Handle& y,
                              const rt::Handle& statistics, const rt::TaskOptions& options) {
  submitter.submit(layernorm_forward_codelet(x.type()),
                   buffer_list({&x, norm.weight.handle, &y, &statistics}), make_args(shape, norm),
                   norm_work(shape, 8), options);
}

void submit_layernorm_backward(rt::Submitter& submitter, const NormShape& shape,
                               const rt::Handle& x, const NormRef& norm,
                               const rt::Handle& statistics, const rt::Handle& dy,
                               const rt::Handle& residual, const rt::Handle& dx,
                               const rt::TaskOptions& options) {
  submitter.submit(layernorm_backward_codelet(x.type()),
                   buffer_list({&x, norm.weight.handle, &statistics, &dy, &residual, &dx}),
                   make_args(shape, norm), norm_work(shape, 13), options);
}

void submit_layernorm_backward_last(rt::Submitter& submitter, const NormShape& shape,
                                    const rt::Handle& x, const NormRef& norm,
                                    const rt::Handle& statistics, const rt::Handle& dy,
                                    const rt::Handle& dx, const rt::TaskOptions& options) {
  submitter.submit(layernorm_backward_last_codelet(x.type()),
                   buffer_list({&x, norm.weight.handle, &statistics, &dy, &dx}),
                   make_args(shape, norm), norm_work(shape, 12), options);
}

void submit_layernorm_backward_weight(rt::Submitter& submitter, const NormShape& shape,
                                      const rt::Handle& x, const rt::Handle& statistics,
                                      const rt::Handle& dy, bool accumulate,
                                      const NormRef& gradient, const rt::TaskOptions& options) {
  submitter.submit(layernorm_backward_weight_codelet({x.type(), gradient.weight.handle->type()}),
                   buffer_list({&x, &statistics, &dy, gradient.weight.handle}),
                   make_args(shape, gradient, accumulate), norm_work(shape, 5), options);
}

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#include "codelets/swiglu/swiglu_codelet.hpp"

#include "base/error.hpp"
#include "codelets/by_type.hpp"
#include "codelets/cuda/tasks.hpp"
#include "codelets/matrix/refs.hpp"
#include "codelets/swiglu/swiglu_cuda.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

template <class T>
void forward_task(const rt::TaskView& task) {
  simd::dispatch([&]<simd::Isa kIsa>() {
    swiglu_forward_cpu<kIsa>(task.args<SwigluShape>(), task.pointer<const T>(0),
                             task.pointer<T>(1));
  });
}

template <class T>
void backward_task(const rt::TaskView& task) {
  simd::dispatch([&]<simd::Isa kIsa>() {
    swiglu_backward_cpu<kIsa>(task.args<SwigluShape>(), task.pointer<const T>(0),
                              task.pointer<const T>(1), task.pointer<T>(2));
  });
}

template <class T>
void forward_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  start_on_cuda(stream, [&](const auto& context) {
    return swiglu_forward_cuda(context, kTypeOf<T>, task.args<SwigluShape>(),
                               task.pointer<const T>(0), task.pointer<T>(1));
  });
}

template <class T>
void backward_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  start_on_cuda(stream, [&](const auto& context) {
    return swiglu_backward_cuda(context, kTypeOf<T>, task.args<SwigluShape>(),
                                task.pointer<const T>(0), task.pointer<const T>(1),
                                task.pointer<T>(2));
  });
}

/// `projected` are buffers of gates and ups, `gated` one of their products.
void require_shape(const SwigluShape& shape, std::initializer_list<const rt::Handle*> projected,
                   const rt::Handle& gated) {
  const Index count = shape.tokens * shape.hidden;
  require(gated.count() == count, "a buffer of tokens * hidden elements");
  for (const rt::Handle* buffer : projected)
    require(buffer->count() == 2 * count && buffer->type() == gated.type(),
            "gate and up in one buffer of 2 * tokens * hidden elements, all of one type");
}

rt::Work work_of(const SwigluShape& shape, double flops_of_element) {
  const double count = static_cast<double>(shape.tokens) * static_cast<double>(shape.hidden);
  return {flops_of_element * count, {shape.tokens, shape.hidden}};
}

}  // namespace

const rt::Codelet& swiglu_forward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<forward_task<T>, nullptr, kOnCuda<forward_cuda_task<T>>>(
        {.symbol = symbol_of<T>("swiglu_forward", 1),
         .modes = {Mode::kRead, Mode::kWrite},
         .tail = {}});
  });
  return codelets[type];
}

const rt::Codelet& swiglu_backward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<backward_task<T>, nullptr, kOnCuda<backward_cuda_task<T>>>(
        {.symbol = symbol_of<T>("swiglu_backward", 1),
         .modes = {Mode::kRead, Mode::kRead, Mode::kWrite},
         .tail = {}});
  });
  return codelets[type];
}

void submit_swiglu_forward(rt::Submitter& submitter, const SwigluShape& shape, const rt::Handle& x,
                           const rt::Handle& out, const rt::TaskOptions& options) {
  require_shape(shape, {&x}, out);
  submitter.submit(swiglu_forward_codelet(x.type()), buffer_list({&x, &out}), shape,
                   work_of(shape, 6), options);
}

void submit_swiglu_backward(rt::Submitter& submitter, const SwigluShape& shape, const rt::Handle& x,
                            const rt::Handle& dout, const rt::Handle& dx,
                            const rt::TaskOptions& options) {
  require_shape(shape, {&x, &dx}, dout);
  submitter.submit(swiglu_backward_codelet(x.type()), buffer_list({&x, &dout, &dx}), shape,
                   work_of(shape, 10), options);
}

}  // namespace dos::codelets

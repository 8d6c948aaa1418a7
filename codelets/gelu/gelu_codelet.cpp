// SPDX-License-Identifier: Apache-2.0
#include "codelets/gelu/gelu_codelet.hpp"

#include "codelets/cuda/tasks.hpp"
#include "codelets/gelu/gelu.hpp"
#include "codelets/gelu/gelu_cuda.hpp"
#include "codelets/matrix/refs.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

struct Args {
  Index count;
};

void forward_task(const rt::TaskView& task) {
  simd::dispatch([&]<simd::Isa kIsa>() {
    gelu_forward_cpu<kIsa>(task.args<Args>().count, task.pointer<const float>(0),
                           task.pointer<float>(1));
  });
}

void backward_task(const rt::TaskView& task) {
  simd::dispatch([&]<simd::Isa kIsa>() {
    gelu_backward_cpu<kIsa>(task.args<Args>().count, task.pointer<const float>(0),
                            task.pointer<float>(1));
  });
}

template <class T>
void forward_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  start_on_cuda(stream, [&](const auto& context) {
    return gelu_forward_cuda(context, kCudaType<T>, task.args<Args>().count,
                             task.pointer<const T>(0), task.pointer<T>(1));
  });
}

template <class T>
void backward_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  start_on_cuda(stream, [&](const auto& context) {
    return gelu_backward_cuda(context, kCudaType<T>, task.args<Args>().count,
                              task.pointer<const T>(0), task.pointer<T>(1));
  });
}

}  // namespace

const rt::Codelet& gelu_forward_codelet() {
  static const rt::Codelet codelet =
      rt::make_codelet<forward_task, nullptr, kOnCuda<forward_cuda_task<float>>>(
          {.symbol = "dos.gelu_forward.f32.v1", .modes = {Mode::kRead, Mode::kWrite}, .tail = {}});
  return codelet;
}

const rt::Codelet& gelu_backward_codelet() {
  static const rt::Codelet codelet =
      rt::make_codelet<backward_task, nullptr, kOnCuda<backward_cuda_task<float>>>(
          {.symbol = "dos.gelu_backward.f32.v1",
           .modes = {Mode::kRead, Mode::kReadWrite},
           .tail = {}});
  return codelet;
}

void submit_gelu_forward(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& y,
                         const rt::TaskOptions& options) {
  submitter.submit(gelu_forward_codelet(), buffer_list({&x, &y}), Args{x.count()},
                   {8.0 * static_cast<double>(x.count()), {x.count()}}, options);
}

void submit_gelu_backward(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& dy,
                          const rt::TaskOptions& options) {
  submitter.submit(gelu_backward_codelet(), buffer_list({&x, &dy}), Args{x.count()},
                   {14.0 * static_cast<double>(x.count()), {x.count()}}, options);
}

}  // namespace dos::codelets

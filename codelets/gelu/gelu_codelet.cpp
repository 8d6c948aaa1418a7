// SPDX-License-Identifier: Apache-2.0
#include "codelets/gelu/gelu_codelet.hpp"

#include "codelets/by_type.hpp"
#include "codelets/gelu/gelu.hpp"
#include "codelets/matrix/refs.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

struct Args {
  Index count;
};

template <class T>
void forward_task(const rt::TaskView& task) {
  simd::dispatch([&]<simd::Isa kIsa>() {
    gelu_forward_cpu<kIsa>(task.args<Args>().count, task.pointer<const T>(0), task.pointer<T>(1));
  });
}

template <class T>
void backward_task(const rt::TaskView& task) {
  simd::dispatch([&]<simd::Isa kIsa>() {
    gelu_backward_cpu<kIsa>(task.args<Args>().count, task.pointer<const T>(0), task.pointer<T>(1));
  });
}

}  // namespace

const rt::Codelet& gelu_forward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<forward_task<T>>({.symbol = symbol_of<T>("gelu_forward", 1),
                                              .modes = {Mode::kRead, Mode::kWrite},
                                              .tail = {}});
  });
  return codelets[type];
}

const rt::Codelet& gelu_backward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<backward_task<T>>({.symbol = symbol_of<T>("gelu_backward", 1),
                                               .modes = {Mode::kRead, Mode::kReadWrite},
                                               .tail = {}});
  });
  return codelets[type];
}

void submit_gelu_forward(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& y,
                         const rt::TaskOptions& options) {
  submitter.submit(gelu_forward_codelet(x.type()), buffer_list({&x, &y}), Args{x.count()},
                   {8.0 * static_cast<double>(x.count()), {x.count()}}, options);
}

void submit_gelu_backward(rt::Submitter& submitter, const rt::Handle& x, const rt::Handle& dy,
                          const rt::TaskOptions& options) {
  submitter.submit(gelu_backward_codelet(x.type()), buffer_list({&x, &dy}), Args{x.count()},
                   {14.0 * static_cast<double>(x.count()), {x.count()}}, options);
}

}  // namespace dos::codelets

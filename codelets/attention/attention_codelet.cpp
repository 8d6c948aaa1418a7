// SPDX-License-Identifier: Apache-2.0
#include "codelets/attention/attention_codelet.hpp"

#include <algorithm>

#include "codelets/attention/attention_batched_cuda.hpp"
#include "codelets/attention/attention_cuda.hpp"
#include "codelets/by_type.hpp"
#include "codelets/cuda/tasks.hpp"
#include "codelets/matrix/refs.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

template <class T>
void forward_task(const rt::TaskView& task) {
  simd::dispatch([&]<simd::Isa kIsa>() {
    attention_forward_cpu<kIsa>(task.args<AttentionShape>(), task.pointer<const T>(0),
                                task.pointer<T>(1), task.pointer<float>(2), task.pointer<float>(3));
  });
}

template <class T>
void backward_task(const rt::TaskView& task) {
  simd::dispatch([&]<simd::Isa kIsa>() {
    attention_backward_cpu<kIsa>(task.args<AttentionShape>(), task.pointer<const T>(0),
                                 task.pointer<const T>(1), task.pointer<const float>(2),
                                 task.pointer<const T>(3), task.pointer<T>(4),
                                 task.pointer<float>(5));
  });
}

bool is_tiled(const AttentionShape& shape) {
  return shape.head_size <= kLargestTiledHead;
}

/// Unused where there are no CUDA kernels.
[[maybe_unused]] AttentionScores scores_in(const rt::TaskView& task, Index workspace) {
  return {task.pointer<float>(workspace), task.count(workspace) * size_of(DType::kF32)};
}

template <class T>
void forward_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  start_on_cuda(stream, [&](const auto& context) {
    const auto& shape = task.args<AttentionShape>();
    const T* qkv = task.pointer<const T>(0);
    T* out = task.pointer<T>(1);
    auto* logsumexp = task.pointer<float>(2);
    return is_tiled(shape) ? attention_forward_cuda(context, kTypeOf<T>, shape, qkv, out, logsumexp)
                           : attention_forward_batched_cuda(context, kTypeOf<T>, shape, qkv, out,
                                                            logsumexp, scores_in(task, 3));
  });
}

template <class T>
void backward_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  start_on_cuda(stream, [&](const auto& context) {
    const auto& shape = task.args<AttentionShape>();
    const T* qkv = task.pointer<const T>(0);
    const T* out = task.pointer<const T>(1);
    const auto* logsumexp = task.pointer<const float>(2);
    const T* dout = task.pointer<const T>(3);
    T* dqkv = task.pointer<T>(4);
    return is_tiled(shape)
               ? attention_backward_cuda(context, kTypeOf<T>, shape, qkv, out, logsumexp, dout,
                                         dqkv)
               : attention_backward_batched_cuda(context, kTypeOf<T>, shape, qkv, out, logsumexp,
                                                 dout, dqkv, scores_in(task, 5));
  });
}

/// `products`: matrix products over the causal half of the T x T scores of a head.
rt::Work attention_work(const AttentionShape& shape, double products) {
  const double scores = 0.5 * static_cast<double>(shape.sequences * shape.heads) *
                        static_cast<double>(shape.tokens) * static_cast<double>(shape.tokens + 1);
  return {products * 2 * scores * static_cast<double>(shape.head_size),
          {shape.sequences, shape.tokens, shape.heads, shape.head_size}};
}

}  // namespace

Index attention_task_workspace(const AttentionShape& shape, DType type, bool on_cuda) {
  const Index on_cpu = attention_workspace(shape, type);
  if (!on_cuda || is_tiled(shape)) return on_cpu;
  return std::max(on_cpu, attention_score_bytes(shape) / size_of(DType::kF32));
}

const rt::Codelet& attention_forward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<forward_task<T>, nullptr, kOnCuda<forward_cuda_task<T>>>(
        {.symbol = symbol_of<T>("attention_forward", 1),
         .modes = {Mode::kRead, Mode::kWrite, Mode::kWrite, Mode::kScratch},
         .tail = {}});
  });
  return codelets[type];
}

const rt::Codelet& attention_backward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<backward_task<T>, nullptr, kOnCuda<backward_cuda_task<T>>>(
        {.symbol = symbol_of<T>("attention_backward", 1),
         .modes = {Mode::kRead, Mode::kRead, Mode::kRead, Mode::kRead, Mode::kWrite,
                   Mode::kScratch},
         .tail = {}});
  });
  return codelets[type];
}

void submit_attention_forward(rt::Submitter& submitter, const AttentionShape& shape,
                              const rt::Handle& qkv, const rt::Handle& out,
                              const rt::Handle& logsumexp, const rt::Handle& workspace,
                              const rt::TaskOptions& options) {
  submitter.submit(attention_forward_codelet(qkv.type()),
                   buffer_list({&qkv, &out, &logsumexp, &workspace}), shape,
                   attention_work(shape, 2), options);
}

void submit_attention_backward(rt::Submitter& submitter, const AttentionShape& shape,
                               const rt::Handle& qkv, const rt::Handle& out,
                               const rt::Handle& logsumexp, const rt::Handle& dout,
                               const rt::Handle& dqkv, const rt::Handle& workspace,
                               const rt::TaskOptions& options) {
  submitter.submit(attention_backward_codelet(qkv.type()),
                   buffer_list({&qkv, &out, &logsumexp, &dout, &dqkv, &workspace}), shape,
                   attention_work(shape, 5), options);
}

}  // namespace dos::codelets

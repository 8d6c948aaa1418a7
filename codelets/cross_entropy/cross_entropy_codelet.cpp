// SPDX-License-Identifier: Apache-2.0
#include "codelets/cross_entropy/cross_entropy_codelet.hpp"

#include "codelets/by_type.hpp"
#include "codelets/cross_entropy/cross_entropy_cuda.hpp"
#include "codelets/cuda/tasks.hpp"
#include "codelets/matrix/refs.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

struct Args {
  CrossEntropyRows rows;
  float scale;
};

struct MeanArgs {
  Index tokens;
};

template <class T>
void forward_task(const rt::TaskView& task) {
  simd::dispatch([&]<simd::Isa kIsa>() {
    cross_entropy_forward_cpu<kIsa>(task.args<Args>().rows, task.pointer<const T>(0),
                                    task.pointer<const std::int32_t>(1), task.pointer<double>(2));
  });
}

template <class T>
void forward_backward_task(const rt::TaskView& task) {
  const auto& args = task.args<Args>();
  simd::dispatch([&]<simd::Isa kIsa>() {
    cross_entropy_forward_backward_cpu<kIsa>(args.rows, args.scale, task.pointer<T>(0),
                                             task.pointer<const std::int32_t>(1),
                                             task.pointer<double>(2));
  });
}

void mean_loss_task(const rt::TaskView& task) {
  double sum = 0;
  for (double* lane : task.pointers_from<double>(1)) {
    sum += *lane;
    *lane = 0;
  }
  *task.pointer<double>(0) = sum / static_cast<double>(task.args<MeanArgs>().tokens);
}

template <class T>
void forward_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  start_on_cuda(stream, [&](const auto& context) {
    return cross_entropy_forward_cuda(context, kTypeOf<T>, task.args<Args>().rows,
                                      task.pointer<const T>(0), task.pointer<const std::int32_t>(1),
                                      task.pointer<double>(2));
  });
}

template <class T>
void forward_backward_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  const auto& args = task.args<Args>();
  start_on_cuda(stream, [&](const auto& context) {
    return cross_entropy_forward_backward_cuda(
        context, kTypeOf<T>, args.rows, args.scale, task.pointer<T>(0),
        task.pointer<const std::int32_t>(1), task.pointer<double>(2));
  });
}

void mean_loss_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  const auto losses = task.pointers_from<double>(1);
  start_on_cuda(stream, [&](const auto& context) {
    return mean_loss_cuda(context, losses, task.args<MeanArgs>().tokens, task.pointer<double>(0));
  });
}

rt::Work rows_work(const CrossEntropyRows& rows, double passes) {
  return {passes * static_cast<double>(rows.rows) * static_cast<double>(rows.vocabulary),
          {rows.rows, rows.vocabulary}};
}

}  // namespace

const rt::Codelet& cross_entropy_forward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<forward_task<T>, nullptr, kOnCuda<forward_cuda_task<T>>>(
        {.symbol = symbol_of<T>("cross_entropy_forward", 2),
         .modes = {Mode::kRead, Mode::kRead, Mode::kReadWrite},
         .tail = {}});
  });
  return codelets[type];
}

const rt::Codelet& cross_entropy_forward_backward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<forward_backward_task<T>, nullptr,
                            kOnCuda<forward_backward_cuda_task<T>>>(
        {.symbol = symbol_of<T>("cross_entropy_forward_backward", 2),
         .modes = {Mode::kReadWrite, Mode::kRead, Mode::kReadWrite},
         .tail = {}});
  });
  return codelets[type];
}

const rt::Codelet& mean_loss_codelet() {
  static const rt::Codelet codelet =
      rt::make_codelet<mean_loss_task, nullptr, kOnCuda<mean_loss_cuda_task>>(
          {.symbol = "dos.mean_loss.f64.v1", .modes = {Mode::kWrite}, .tail = Mode::kReadWrite});
  return codelet;
}

void submit_cross_entropy_forward(rt::Submitter& submitter, const CrossEntropyRows& rows,
                                  const rt::Handle& logits, const rt::Handle& tokens,
                                  const rt::Handle& loss, const rt::TaskOptions& options) {
  submitter.submit(cross_entropy_forward_codelet(logits.type()),
                   buffer_list({&logits, &tokens, &loss}), Args{rows, 0}, rows_work(rows, 4),
                   options);
}

void submit_cross_entropy_forward_backward(rt::Submitter& submitter, const CrossEntropyRows& rows,
                                           float scale, const rt::Handle& logits,
                                           const rt::Handle& tokens, const rt::Handle& loss,
                                           const rt::TaskOptions& options) {
  submitter.submit(cross_entropy_forward_backward_codelet(logits.type()),
                   buffer_list({&logits, &tokens, &loss}), Args{rows, scale}, rows_work(rows, 6),
                   options);
}

void submit_mean_loss(rt::Submitter& submitter, std::span<const rt::Handle* const> lane_losses,
                      Index tokens, const rt::Handle& mean, const rt::TaskOptions& options) {
  std::vector<const rt::Handle*> buffers{&mean};
  buffers.insert(buffers.end(), lane_losses.begin(), lane_losses.end());
  const auto lanes = static_cast<Index>(lane_losses.size());
  submitter.submit(mean_loss_codelet(), buffers, MeanArgs{tokens},
                   {static_cast<double>(lanes), {lanes}}, options);
}

}  // namespace dos::codelets

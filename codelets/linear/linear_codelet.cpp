// SPDX-License-Identifier: Apache-2.0
#include "codelets/linear/linear_codelet.hpp"

#include "codelets/by_type.hpp"
#include "codelets/cuda/tasks.hpp"
#include "codelets/linear/linear.hpp"
#include "codelets/linear/linear_cuda.hpp"

namespace dos::codelets {
namespace {

using rt::Mode;

struct MatrixArgs {
  RowRange rows;
  RowBlocking weight;
  Index stride;  ///< elements from the start of one row of y or dy to the next
  Index bias_offset = 0;
};

struct WeightGradientArgs {
  LinearWeightBlock block;
  Index x_first_row;
  bool accumulate;
};

struct BiasArgs {
  Index tokens;
  Index out;
  Index offset;
  bool accumulate;
};

template <class T>
void forward_task(const rt::TaskView& task) {
  const auto& args = task.args<MatrixArgs>();
  const auto blocks = task.pointers_from<const T>(3);
  simd::dispatch([&]<simd::Isa kIsa>() {
    linear_forward_cpu<kIsa>(
        args.rows.count, task.pointer<const T>(0), {args.weight, blocks.data()},
        task.pointer<const T>(1) + args.bias_offset, nullptr, task.pointer<T>(2), args.stride);
  });
}

template <class T>
void residual_forward_task(const rt::TaskView& task) {
  const auto& args = task.args<MatrixArgs>();
  const auto blocks = task.pointers_from<const T>(4);
  simd::dispatch([&]<simd::Isa kIsa>() {
    linear_forward_cpu<kIsa>(args.rows.count, task.pointer<const T>(0),
                             {args.weight, blocks.data()},
                             task.pointer<const T>(1) + args.bias_offset, task.pointer<const T>(2),
                             task.pointer<T>(3), args.stride);
  });
}

template <class T>
void logits_forward_task(const rt::TaskView& task) {
  const auto& args = task.args<MatrixArgs>();
  const auto blocks = task.pointers_from<const T>(2);
  const T* x = task.pointer<const T>(0) + args.rows.first * args.weight.columns;
  simd::dispatch([&]<simd::Isa kIsa>() {
    linear_forward_cpu<kIsa>(args.rows.count, x, {args.weight, blocks.data()}, nullptr, nullptr,
                             task.pointer<T>(1), args.stride);
  });
}

/// Buffers: dy, dx, then the weight's blocks. Writes rows.count rows of dx from rows.first on.
template <class T>
void backward_data_task(const rt::TaskView& task) {
  const auto& args = task.args<MatrixArgs>();
  const auto blocks = task.pointers_from<const T>(2);
  T* dx = task.pointer<T>(1) + args.rows.first * args.weight.columns;
  simd::dispatch([&]<simd::Isa kIsa>() {
    linear_backward_data_cpu<kIsa>(args.rows.count, task.pointer<const T>(0), args.stride,
                                   {args.weight, blocks.data()}, dx);
  });
}

template <class T, class G>
void backward_weight_task(const rt::TaskView& task) {
  const auto& args = task.args<WeightGradientArgs>();
  const T* x = task.pointer<const T>(1) + args.x_first_row * args.block.in;
  simd::dispatch([&]<simd::Isa kIsa>() {
    linear_backward_weight_cpu<kIsa>(args.block, task.pointer<const T>(0), x, args.accumulate,
                                     task.pointer<G>(2));
  });
}

template <class T, class G>
void bias_backward_task(const rt::TaskView& task) {
  const auto& args = task.args<BiasArgs>();
  simd::dispatch([&]<simd::Isa kIsa>() {
    bias_backward_cpu<kIsa>(args.tokens, args.out, task.pointer<const T>(0), args.accumulate,
                            task.pointer<G>(1) + args.offset);
  });
}

template <class T>
void forward_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  const auto& args = task.args<MatrixArgs>();
  const auto blocks = task.pointers_from<const void>(3);
  start_on_cuda(stream, [&](const auto& context) {
    return linear_forward_cuda(context, kTypeOf<T>, args.rows.count, task.pointer<const T>(0),
                               {args.weight, blocks.data()},
                               task.pointer<const T>(1) + args.bias_offset, nullptr,
                               task.pointer<T>(2), args.stride);
  });
}

template <class T>
void residual_forward_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  const auto& args = task.args<MatrixArgs>();
  const auto blocks = task.pointers_from<const void>(4);
  start_on_cuda(stream, [&](const auto& context) {
    return linear_forward_cuda(context, kTypeOf<T>, args.rows.count, task.pointer<const T>(0),
                               {args.weight, blocks.data()},
                               task.pointer<const T>(1) + args.bias_offset,
                               task.pointer<const T>(2), task.pointer<T>(3), args.stride);
  });
}

template <class T>
void logits_forward_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  const auto& args = task.args<MatrixArgs>();
  const auto blocks = task.pointers_from<const void>(2);
  const T* x = task.pointer<const T>(0) + args.rows.first * args.weight.columns;
  start_on_cuda(stream, [&](const auto& context) {
    return linear_forward_cuda(context, kTypeOf<T>, args.rows.count, x,
                               {args.weight, blocks.data()}, nullptr, nullptr, task.pointer<T>(1),
                               args.stride);
  });
}

template <class T>
void backward_data_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  const auto& args = task.args<MatrixArgs>();
  const auto blocks = task.pointers_from<const void>(2);
  T* dx = task.pointer<T>(1) + args.rows.first * args.weight.columns;
  start_on_cuda(stream, [&](const auto& context) {
    return linear_backward_data_cuda(context, kTypeOf<T>, args.rows.count, task.pointer<const T>(0),
                                     args.stride, {args.weight, blocks.data()}, dx);
  });
}

template <class T, class G>
void backward_weight_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  const auto& args = task.args<WeightGradientArgs>();
  const T* x = task.pointer<const T>(1) + args.x_first_row * args.block.in;
  start_on_cuda(stream, [&](const auto& context) {
    return linear_backward_weight_cuda(context, kTypeOf<T>, kTypeOf<G>, args.block,
                                       task.pointer<const T>(0), x, args.accumulate,
                                       task.pointer<G>(2));
  });
}

template <class T, class G>
void bias_backward_cuda_task(const rt::TaskView& task, rt::CudaStream stream) {
  const auto& args = task.args<BiasArgs>();
  start_on_cuda(stream, [&](const auto& context) {
    return bias_backward_cuda(context, kTypeOf<T>, kTypeOf<G>, args.tokens, args.out,
                              task.pointer<const T>(0), args.accumulate,
                              task.pointer<G>(1) + args.offset);
  });
}

rt::Work product_work(const RowRange& rows, const RowBlocking& weight) {
  const double flops = 2.0 * static_cast<double>(rows.count) * static_cast<double>(weight.rows) *
                       static_cast<double>(weight.columns);
  return {flops, {rows.count, weight.rows, weight.columns}};
}

}  // namespace

const rt::Codelet& linear_forward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<forward_task<T>, nullptr, kOnCuda<forward_cuda_task<T>>>(
        {.symbol = symbol_of<T>("linear_forward", 1),
         .modes = {Mode::kRead, Mode::kRead, Mode::kWrite},
         .tail = Mode::kRead});
  });
  return codelets[type];
}

const rt::Codelet& linear_residual_forward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<residual_forward_task<T>, nullptr,
                            kOnCuda<residual_forward_cuda_task<T>>>(
        {.symbol = symbol_of<T>("linear_residual_forward", 1),
         .modes = {Mode::kRead, Mode::kRead, Mode::kRead, Mode::kWrite},
         .tail = Mode::kRead});
  });
  return codelets[type];
}

const rt::Codelet& linear_backward_data_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<backward_data_task<T>, nullptr, kOnCuda<backward_data_cuda_task<T>>>(
        {.symbol = symbol_of<T>("linear_backward_data", 1),
         .modes = {Mode::kRead, Mode::kWrite},
         .tail = Mode::kRead});
  });
  return codelets[type];
}

const rt::Codelet& linear_backward_weight_codelet(const GradientTypes& types) {
  static const ByGradientTypes codelets([]<class T, class G>() {
    return rt::make_codelet<backward_weight_task<T, G>, nullptr,
                            kOnCuda<backward_weight_cuda_task<T, G>>>(
        {.symbol = symbol_of<T, G>("linear_backward_weight", 1),
         .modes = {Mode::kRead, Mode::kRead, Mode::kWrite},
         .tail = {}});
  });
  return codelets[types];
}

const rt::Codelet& linear_accumulate_weight_codelet(const GradientTypes& types) {
  static const ByGradientTypes codelets([]<class T, class G>() {
    return rt::make_codelet<backward_weight_task<T, G>, nullptr,
                            kOnCuda<backward_weight_cuda_task<T, G>>>(
        {.symbol = symbol_of<T, G>("linear_accumulate_weight", 1),
         .modes = {Mode::kRead, Mode::kRead, Mode::kReadWrite},
         .tail = {}});
  });
  return codelets[types];
}

const rt::Codelet& bias_backward_codelet(const GradientTypes& types) {
  static const ByGradientTypes codelets([]<class T, class G>() {
    return rt::make_codelet<bias_backward_task<T, G>, nullptr,
                            kOnCuda<bias_backward_cuda_task<T, G>>>(
        {.symbol = symbol_of<T, G>("bias_backward", 1),
         .modes = {Mode::kRead, Mode::kReadWrite},
         .tail = {}});
  });
  return codelets[types];
}

const rt::Codelet& logits_forward_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<logits_forward_task<T>, nullptr, kOnCuda<logits_forward_cuda_task<T>>>(
        {.symbol = symbol_of<T>("logits_forward", 2),
         .modes = {Mode::kRead, Mode::kReadWrite},
         .tail = Mode::kRead});
  });
  return codelets[type];
}

const rt::Codelet& logits_backward_data_codelet(DType type) {
  static const ByType codelets([]<class T>() {
    return rt::make_codelet<backward_data_task<T>, nullptr, kOnCuda<backward_data_cuda_task<T>>>(
        {.symbol = symbol_of<T>("logits_backward_data", 2),
         .modes = {Mode::kRead, Mode::kReadWrite},
         .tail = Mode::kRead});
  });
  return codelets[type];
}

void submit_linear_forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                           const MatrixRef& w, const SliceRef& bias, const rt::Handle& y,
                           const rt::TaskOptions& options) {
  const MatrixArgs args{{0, tokens}, w.blocking, w.blocking.rows, bias.offset};
  submitter.submit(linear_forward_codelet(x.type()), buffer_list({&x, bias.handle, &y}, w), args,
                   product_work(args.rows, w.blocking), options);
}

void submit_linear_residual_forward(rt::Submitter& submitter, Index tokens, const rt::Handle& x,
                                    const MatrixRef& w, const SliceRef& bias,
                                    const rt::Handle& residual, const rt::Handle& y,
                                    const rt::TaskOptions& options) {
  const MatrixArgs args{{0, tokens}, w.blocking, w.blocking.rows, bias.offset};
  submitter.submit(linear_residual_forward_codelet(x.type()),
                   buffer_list({&x, bias.handle, &residual, &y}, w), args,
                   product_work(args.rows, w.blocking), options);
}

void submit_linear_backward_data(rt::Submitter& submitter, Index tokens, const rt::Handle& dy,
                                 const MatrixRef& w, const rt::Handle& dx,
                                 const rt::TaskOptions& options) {
  const MatrixArgs args{{0, tokens}, w.blocking, w.blocking.rows};
  submitter.submit(linear_backward_data_codelet(dy.type()), buffer_list({&dy, &dx}, w), args,
                   product_work(args.rows, w.blocking), options);
}

void submit_linear_backward_weight(rt::Submitter& submitter, const RowRange& rows,
                                   const RowsRef& dy, const rt::Handle& x, bool accumulate,
                                   const MatrixRef& dw, const rt::TaskOptions& options) {
  const RowBlocking& blocking = dw.blocking;
  if (blocking.count() == 0) return;
  const GradientTypes types{dy.handle->type(), dw.blocks.front()->type()};
  const rt::Codelet& codelet =
      accumulate ? linear_accumulate_weight_codelet(types) : linear_backward_weight_codelet(types);
  for (Index b = 0; b < blocking.count(); ++b) {
    const WeightGradientArgs args{.block = {.tokens = rows.count,
                                            .in = blocking.columns,
                                            .dy_stride = dy.stride,
                                            .first_row = blocking.first_row(b),
                                            .rows = blocking.rows_of(b)},
                                  .x_first_row = rows.first,
                                  .accumulate = accumulate};
    const double flops = 2.0 * static_cast<double>(rows.count) *
                         static_cast<double>(args.block.rows) * static_cast<double>(args.block.in);
    submitter.submit(codelet, buffer_list({dy.handle, &x, dw.blocks[static_cast<std::size_t>(b)]}),
                     args, {flops, {rows.count, args.block.rows, args.block.in}}, options);
  }
}

void submit_bias_backward(rt::Submitter& submitter, Index tokens, Index out, const rt::Handle& dy,
                          bool accumulate, const SliceRef& dbias, const rt::TaskOptions& options) {
  const BiasArgs args{tokens, out, dbias.offset, accumulate};
  submitter.submit(bias_backward_codelet({dy.type(), dbias.handle->type()}),
                   buffer_list({&dy, dbias.handle}), args,
                   {static_cast<double>(tokens * out), {tokens, out}}, options);
}

void submit_logits_forward(rt::Submitter& submitter, const RowRange& rows, const rt::Handle& x,
                           const MatrixRef& w, const RowsRef& logits,
                           const rt::TaskOptions& options) {
  const MatrixArgs args{rows, w.blocking, logits.stride};
  submitter.submit(logits_forward_codelet(x.type()), buffer_list({&x, logits.handle}, w), args,
                   product_work(rows, w.blocking), options);
}

void submit_logits_backward_data(rt::Submitter& submitter, const RowRange& rows,
                                 const RowsRef& dlogits, const MatrixRef& w, const rt::Handle& dx,
                                 const rt::TaskOptions& options) {
  const MatrixArgs args{rows, w.blocking, dlogits.stride};
  submitter.submit(logits_backward_data_codelet(dx.type()), buffer_list({dlogits.handle, &dx}, w),
                   args, product_work(rows, w.blocking), options);
}

}  // namespace dos::codelets

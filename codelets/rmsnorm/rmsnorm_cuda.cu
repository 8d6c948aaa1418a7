// SPDX-License-Identifier: Apache-2.0
#include "codelets/cuda/columns.cuh"
#include "codelets/cuda/rows.cuh"
#include "codelets/rmsnorm/rmsnorm.hpp"

namespace dos::codelets {
namespace {

using namespace cuda;

/// Where the vector of a number lies.
struct Place {
  Index x;
  Index y;
  Index weight;

  __device__ __forceinline__ Place(const RmsNormShape& shape, Index number) {
    const Index token = number / shape.vectors;
    const Index vector = number % shape.vectors;
    x = token * shape.stride_of_x() + vector * shape.width;
    y = token * shape.stride_of_y() + vector * shape.width;
    weight = vector < shape.first ? 0 : shape.width;
  }
};

template <class T>
__device__ __forceinline__ float rounded(float value) {
  return to_float(from_float<T>(value));
}

template <class T, int kGroup>
__global__ void __launch_bounds__(kThreads)
    forward(Rows rows, RmsNormShape shape, const T* x, const T* weight, T* y, float* statistics) {
  for_rows<kGroup>(rows, [&](Index number) {
    const Place at(shape, number);
    const RowPart<T, kGroup> in(x + at.x, rows.width, rows.words);
    const float squares = sum_row(in, [](float v) { return v * v; });
    const float rstd = 1.0F / sqrtf(squares / static_cast<float>(rows.width) + shape.epsilon);
    const auto write = [&](const Pack<T>& pack, Index column) {
      const Index left = rows.width - column;
      Pack<T> w;
      Pack<T> out;
      w.load(weight + at.weight + column, left, rows.words);
#pragma unroll
      for (Index k = 0; k < kPack; ++k) out.set(k, rounded<T>(pack.get(k) * rstd) * w.get(k));
      out.store(y + at.y + column, left, rows.words);
    };
    for_packs(
        in, [&](int p) { write(in.kept[p], in.column(p)); },
        [&](Index p) { write(in.wide(p), in.column(p)); });
    if (in.thread == 0) statistics[number] = rstd;
  });
}

/// dx may be dy: a thread writes only what it alone has read.
template <class T, int kGroup>
__global__ void __launch_bounds__(kThreads)
    backward(Rows rows, RmsNormShape shape, const T* x, const T* weight, const float* statistics,
             const T* dy, const T* residual, T* dx) {
  for_rows<kGroup>(rows, [&](Index number) {
    const Place at(shape, number);
    const float rstd = statistics[number];
    const RowPart<T, kGroup> in(x + at.x, rows.width, rows.words);
    const RowPart<T, kGroup> gradient(dy + at.y, rows.width, rows.words);
    float projection = 0;
    // Columns that are not there have dy = 0 and add nothing.
    const auto add = [&](const Pack<T>& v, const Pack<T>& g, Index column) {
      Pack<T> w;
      w.load(weight + at.weight + column, rows.width - column, rows.words);
#pragma unroll
      for (Index k = 0; k < kPack; ++k) projection += w.get(k) * g.get(k) * (v.get(k) * rstd);
    };
    for_packs(
        in, [&](int p) { add(in.kept[p], gradient.kept[p], in.column(p)); },
        [&](Index p) { add(in.wide(p), gradient.wide(p), in.column(p)); });
    const float factor = reduce_block<kGroup>(projection, Add{}) / static_cast<float>(rows.width);
    const auto write = [&](const Pack<T>& v, const Pack<T>& g, Index column) {
      const Index left = rows.width - column;
      Pack<T> w;
      Pack<T> extra{};
      Pack<T> out;
      w.load(weight + at.weight + column, left, rows.words);
      if (residual != nullptr) extra.load(residual + at.y + column, left, rows.words);
#pragma unroll
      for (Index k = 0; k < kPack; ++k)
        out.set(k, rstd * (w.get(k) * g.get(k) - v.get(k) * rstd * factor) + extra.get(k));
      out.store(dx + at.y + column, left, rows.words);
    };
    for_packs(
        in, [&](int p) { write(in.kept[p], gradient.kept[p], in.column(p)); },
        [&](Index p) { write(in.wide(p), gradient.wide(p), in.column(p)); });
  });
}

/// Terms of the gradient of one weight, for sum_columns: of the vectors first .. first + count - 1
/// of each token.
template <class T>
struct WeightTerms {
  static constexpr int kSums = 1;
  RmsNormShape shape;
  Index first;
  Index count;
  bool words;
  const T* x;
  const float* statistics;
  const T* dy;

  __device__ __forceinline__ void add(Index row, Index column, Index left,
                                      float (&sums)[kSums][kPack]) const {
    const Index number = row / count * shape.vectors + first + row % count;
    const Place at(shape, number);
    const float rstd = statistics[number];
    Pack<T> v;
    Pack<T> g;
    v.load(x + at.x + column, left, words);
    g.load(dy + at.y + column, left, words);
#pragma unroll
    for (Index k = 0; k < kPack; ++k) sums[0][k] += g.get(k) * rounded<T>(v.get(k) * rstd);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) copy_rows(RmsNormShape shape, const T* from, T* to) {
  const Index row = shape.row();
  for (Index i = global_thread(); i < shape.tokens * row; i += global_threads())
    to[i] = from[i / row * shape.stride_of_y() + i % row];
}

/// The vectors as rows.
template <class T, class... Arrays>
Rows rows_of(const RmsNormShape& shape, const Arrays*... arrays) {
  constexpr Index kSize = sizeof(T);
  const bool words = (aligned(arrays) && ...) && rows_stay_aligned(shape.width, kSize) &&
                     rows_stay_aligned(shape.stride_of_x(), kSize) &&
                     rows_stay_aligned(shape.stride_of_y(), kSize);
  return {shape.tokens * shape.vectors, shape.width, words};
}

bool is_empty(const RmsNormShape& shape) {
  return shape.tokens == 0 || shape.row() == 0;
}

template <class T>
const T* as(const void* array) {
  return static_cast<const T*>(array);
}

}  // namespace

const char* rmsnorm_forward_cuda(const CudaContext& context, DType type, const RmsNormShape& shape,
                                 const void* x, const void* weight, void* y, float* statistics) {
  if (is_empty(shape)) return nullptr;
  return with_element(type, [&]<class T>(T) {
    const Rows rows = rows_of<T>(shape, x, weight, static_cast<const void*>(y));
    const auto kernel = rows.width <= kWidestOfWarp ? &forward<T, kWarp> : &forward<T, kThreads>;
    kernel<<<blocks_for(rows.tokens, rows_of_block(rows.width)), kThreads, 0, context.stream>>>(
        rows, shape, as<T>(x), as<T>(weight), static_cast<T*>(y), statistics);
    return launch_fault();
  });
}

const char* rmsnorm_backward_cuda(const CudaContext& context, DType type, const RmsNormShape& shape,
                                  const void* x, const void* weight, const float* statistics,
                                  const void* dy, const void* residual, void* dx) {
  if (is_empty(shape)) return nullptr;
  return with_element(type, [&]<class T>(T) {
    const Rows rows = rows_of<T>(shape, x, weight, dy, residual, static_cast<const void*>(dx));
    const auto kernel = rows.width <= kWidestOfWarp ? &backward<T, kWarp> : &backward<T, kThreads>;
    kernel<<<blocks_for(rows.tokens, rows_of_block(rows.width)), kThreads, 0, context.stream>>>(
        rows, shape, as<T>(x), as<T>(weight), statistics, as<T>(dy), as<T>(residual),
        static_cast<T*>(dx));
    return launch_fault();
  });
}

const char* rmsnorm_backward_weight_cuda(const CudaContext& context, DType type, DType gradient,
                                         const RmsNormShape& shape, const void* x,
                                         const float* statistics, const void* dy, bool accumulate,
                                         void* dweight) {
  return with_element(type, [&]<class T>(T) {
    const bool words = rows_of<T>(shape, x, dy).words;
    return with_element(gradient, [&]<class G>(G) {
      const char* fault = nullptr;
      for (Index weight = 0; fault == nullptr && weight < shape.weights(); ++weight) {
        const Index first = weight == 0 ? 0 : shape.first;
        const Index count =
            (shape.weights() == 1 || weight > 0 ? shape.vectors : shape.first) - first;
        const WeightTerms<T> terms{shape, first, count, words, as<T>(x), statistics, as<T>(dy)};
        const ColumnOutputs<1, G> out{{static_cast<G*>(dweight) + weight * shape.width}};
        fault = sum_columns<WeightTerms<T>, G>(context, terms, shape.tokens * count, shape.width,
                                               accumulate, out);
      }
      return fault;
    });
  });
}

const char* copy_vectors_cuda(const CudaContext& context, DType type, const RmsNormShape& shape,
                              const void* from, void* to) {
  if (is_empty(shape)) return nullptr;
  return with_element(type, [&]<class T>(T) {
    copy_rows<<<blocks_for(shape.tokens * shape.row(), kThreads), kThreads, 0, context.stream>>>(
        shape, as<T>(from), static_cast<T*>(to));
    return launch_fault();
  });
}

}  // namespace dos::codelets

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
    // Divisions of 64 bits cost as much as a narrow row, and most norms are of whole rows.
    const Index token = shape.vectors == 1 ? number : number / shape.vectors;
    const Index vector = number - token * shape.vectors;
    x = token * shape.stride_of_x() + vector * shape.width;
    y = token * shape.stride_of_y() + vector * shape.width;
    weight = vector < shape.first ? 0 : shape.width;
  }
};

/// x rounded to its type after the norm, as y = w x has it.
template <class T>
__device__ __forceinline__ Pack<T> normalised(const Pack<T>& x, float rstd) {
  Pack<T> result;
  result.fill([&](Index k) { return x.get(k) * rstd; });
  return result;
}

template <class T, class Kind>
__global__ void __launch_bounds__(kThreads)
    forward(Rows rows, RmsNormShape shape, const T* x, const T* weight, T* y, float* statistics) {
  for_rows<Kind>(rows, [&](Index number) {
    const Place at(shape, number);
    const RowPart<T, Kind> in(x + at.x, rows);
    const float squares = in.sum([](float v) { return v * v; });
    const float rstd = inverse_root<T>(squares * rows.inverse_width + shape.epsilon);
    in.each([&](Index p) {
      const Pack<T> normal = normalised(in.pack(p), rstd);
      const Pack<T> w = in.constant(weight + at.weight, p);
      Pack<T> out;
      out.fill([&](Index k) { return normal.get(k) * w.get(k); });
      in.write(out, y + at.y, p);
    });
    if (is_first_of_group<Kind>()) statistics[number] = rstd;
  });
}

/// dx may be dy: a thread writes only what it alone has read.
template <class T, class Kind>
__global__ void __launch_bounds__(kThreads)
    backward(Rows rows, RmsNormShape shape, const T* x, const T* weight, const float* statistics,
             const T* dy, const T* residual, T* dx) {
  for_rows<Kind>(rows, [&](Index number) {
    const Place at(shape, number);
    const RowPart<T, Kind> in(x + at.x, rows);
    const RowPart<T, Kind> gradient(dy + at.y, rows);
    const RowPart<T, Kind> by_pass(residual == nullptr ? nullptr : residual + at.y, rows);
    const float rstd = statistics[number];
    float projection = 0;
    // Columns that are not there have dy = 0 and add nothing.
    in.each([&](Index p) {
      const Pack<T> v = in.pack(p);
      const Pack<T> g = gradient.pack(p);
      const Pack<T> w = in.constant(weight + at.weight, p);
#pragma unroll
      for (Index k = 0; k < kPack<T>; ++k) projection += w.get(k) * g.get(k) * (v.get(k) * rstd);
    });
    const float factor = reduce_block<Kind::kGroup>(projection, Add{}) * rows.inverse_width;
    in.each([&](Index p) {
      const Pack<T> v = in.pack(p);
      const Pack<T> g = gradient.pack(p);
      const Pack<T> w = in.constant(weight + at.weight, p);
      const Pack<T> extra = by_pass.pack(p);
      Pack<T> out;
      out.fill([&](Index k) {
        return rstd * (w.get(k) * g.get(k) - v.get(k) * rstd * factor) + extra.get(k);
      });
      in.write(out, dx + at.y, p);
    });
  });
}

/// Terms of the gradient of one weight, for sum_columns: of the vectors first .. first + count - 1
/// of each token.
template <class T>
struct WeightTerms {
  using Element = T;
  static constexpr int kSums = 1;
  RmsNormShape shape;
  Index first;
  Index count;
  const T* x;
  const float* statistics;
  const T* dy;

  template <class Read>
  __device__ __forceinline__ void add(Index row, Index column, const Read& read,
                                      float (&sums)[kSums][kPack<T>]) const {
    const Index token = count == 1 ? row : row / count;
    const Index number = token * shape.vectors + first + (row - token * count);
    const Place at(shape, number);
    const Pack<T> v = read(x + at.x + column);
    const Pack<T> g = read(dy + at.y + column);
    const Pack<T> normal = normalised(v, statistics[number]);
#pragma unroll
    for (Index k = 0; k < kPack<T>; ++k) sums[0][k] += g.get(k) * normal.get(k);
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
    return with_row_kind<T>(rows, [&]<class Kind>(Kind) {
      forward<T, Kind><<<blocks_for_rows<Kind>(rows), kThreads, 0, context.stream>>>(
          rows, shape, as<T>(x), as<T>(weight), static_cast<T*>(y), statistics);
      return launch_fault();
    });
  });
}

const char* rmsnorm_backward_cuda(const CudaContext& context, DType type, const RmsNormShape& shape,
                                  const void* x, const void* weight, const float* statistics,
                                  const void* dy, const void* residual, void* dx) {
  if (is_empty(shape)) return nullptr;
  return with_element(type, [&]<class T>(T) {
    const Rows rows = rows_of<T>(shape, x, weight, dy, residual, static_cast<const void*>(dx));
    return with_row_kind<T>(rows, [&]<class Kind>(Kind) {
      backward<T, Kind><<<blocks_for_rows<Kind>(rows), kThreads, 0, context.stream>>>(
          rows, shape, as<T>(x), as<T>(weight), statistics, as<T>(dy), as<T>(residual),
          static_cast<T*>(dx));
      return launch_fault();
    });
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
        const WeightTerms<T> terms{shape, first, count, as<T>(x), statistics, as<T>(dy)};
        fault = sum_columns<G>(context, terms, {shape.tokens * count, shape.width, words},
                               accumulate, {static_cast<G*>(dweight) + weight * shape.width});
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

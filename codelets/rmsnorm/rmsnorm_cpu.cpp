// SPDX-License-Identifier: Apache-2.0
#include "codelets/rmsnorm/rmsnorm.hpp"

#include "codelets/simd/elements.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;
// Columns summed at a time: the sums and the row being read stay in the first-level cache.
constexpr Index kStrip = 1024;

/// The number as an element of type T holds it.
template <class T>
[[gnu::always_inline]] inline float rounded(float value) {
  T element;
  simd::put(&element, value);
  return to_float(element);
}

template <class T>
float sum_of_squares(Index width, const T* __restrict x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < width; ++i) sum += to_float(x[i]) * to_float(x[i]);
  return sum;
}

template <class T>
void forward_vector(Index width, float rstd, const T* __restrict x, const T* __restrict weight,
                    T* __restrict y) {
#pragma omp simd
  for (Index i = 0; i < width; ++i)
    simd::put(y + i, rounded<T>(to_float(x[i]) * rstd) * to_float(weight[i]));
}

/// dx may be dy: each element is read before it is written.
template <class T>
void backward_vector(Index width, float rstd, const T* __restrict x, const T* __restrict weight,
                     const T* dy, const T* __restrict residual, T* dx) {
  float projection = 0;
#pragma omp simd reduction(+ : projection)
  for (Index i = 0; i < width; ++i)
    projection += to_float(weight[i]) * to_float(dy[i]) * (to_float(x[i]) * rstd);
  const float factor = projection / static_cast<float>(width);
  if (residual == nullptr) {
#pragma omp simd
    for (Index i = 0; i < width; ++i)
      simd::put(dx + i,
                rstd * (to_float(weight[i]) * to_float(dy[i]) - to_float(x[i]) * rstd * factor));
    return;
  }
#pragma omp simd
  for (Index i = 0; i < width; ++i)
    simd::put(dx + i,
              rstd * (to_float(weight[i]) * to_float(dy[i]) - to_float(x[i]) * rstd * factor) +
                  to_float(residual[i]));
}

template <class T>
void add_row(Index columns, float rstd, const T* __restrict x, const T* __restrict dy,
             float* __restrict sum) {
#pragma omp simd
  for (Index i = 0; i < columns; ++i) sum[i] += to_float(dy[i]) * rounded<T>(to_float(x[i]) * rstd);
}

/// Where a vector lies.
struct Place {
  Index x;
  Index y;
  Index weight;
  Index number;
};

/// f(place) for each vector, those of a token after each other.
template <class F>
void for_each_vector(const RmsNormShape& shape, const F& f) {
  for (Index t = 0; t < shape.tokens; ++t)
    for (Index v = 0; v < shape.vectors; ++v)
      f(Place{t * shape.stride_of_x() + v * shape.width, t * shape.stride_of_y() + v * shape.width,
              v < shape.first ? 0 : shape.width, t * shape.vectors + v});
}

}  // namespace

template <simd::Isa, class T>
void rmsnorm_forward_cpu(const RmsNormShape& shape, const T* x, const T* weight, T* y,
                         float* statistics) {
  for_each_vector(shape, [&](const Place& at) {
    const float mean = sum_of_squares(shape.width, x + at.x) / static_cast<float>(shape.width);
    const float rstd = 1.0F / __builtin_sqrtf(mean + shape.epsilon);
    forward_vector(shape.width, rstd, x + at.x, weight + at.weight, y + at.y);
    statistics[at.number] = rstd;
  });
}

template <simd::Isa, class T>
void rmsnorm_backward_cpu(const RmsNormShape& shape, const T* x, const T* weight,
                          const float* statistics, const T* dy,
                          const std::type_identity_t<T>* residual, T* dx) {
  for_each_vector(shape, [&](const Place& at) {
    backward_vector(shape.width, statistics[at.number], x + at.x, weight + at.weight, dy + at.y,
                    residual == nullptr ? nullptr : residual + at.y, dx + at.y);
  });
}

template <simd::Isa, class T, class G>
void rmsnorm_backward_weight_cpu(const RmsNormShape& shape, const T* x, const float* statistics,
                                 const T* dy, bool accumulate, G* dweight) {
  for (Index weight = 0; weight < shape.weights(); ++weight)
    for (Index first = 0; first < shape.width; first += kStrip) {
      const Index columns = shape.width - first < kStrip ? shape.width - first : kStrip;
      float sum[kStrip] = {};
      for_each_vector(shape, [&](const Place& at) {
        if (at.weight == weight * shape.width)
          add_row(columns, statistics[at.number], x + at.x + first, dy + at.y + first, sum);
      });
      G* to = dweight + weight * shape.width + first;
      for (Index i = 0; i < columns; ++i)
        simd::put(to + i, accumulate ? to_float(to[i]) + sum[i] : sum[i]);
    }
}

template <simd::Isa, class T>
void copy_vectors_cpu(const RmsNormShape& shape, const T* from, T* to) {
  for (Index t = 0; t < shape.tokens; ++t)
    __builtin_memcpy(to + t * shape.row(), from + t * shape.stride_of_y(),
                     sizeof(T) * static_cast<std::size_t>(shape.row()));
}

template void rmsnorm_forward_cpu<kIsa>(const RmsNormShape&, const float*, const float*, float*,
                                        float*);
template void rmsnorm_forward_cpu<kIsa>(const RmsNormShape&, const BF16*, const BF16*, BF16*,
                                        float*);
template void rmsnorm_backward_cpu<kIsa>(const RmsNormShape&, const float*, const float*,
                                         const float*, const float*, const float*, float*);
template void rmsnorm_backward_cpu<kIsa>(const RmsNormShape&, const BF16*, const BF16*,
                                         const float*, const BF16*, const BF16*, BF16*);
template void rmsnorm_backward_weight_cpu<kIsa>(const RmsNormShape&, const float*, const float*,
                                                const float*, bool, float*);
template void rmsnorm_backward_weight_cpu<kIsa>(const RmsNormShape&, const BF16*, const float*,
                                                const BF16*, bool, float*);
template void rmsnorm_backward_weight_cpu<kIsa>(const RmsNormShape&, const BF16*, const float*,
                                                const BF16*, bool, BF16*);
template void copy_vectors_cpu<kIsa>(const RmsNormShape&, const float*, float*);
template void copy_vectors_cpu<kIsa>(const RmsNormShape&, const BF16*, BF16*);

}  // namespace dos::codelets

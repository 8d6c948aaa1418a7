// SPDX-License-Identifier: Apache-2.0
#include "codelets/layernorm/layernorm.hpp"

#include "codelets/simd/elements.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;
// Columns summed at a time: both accumulators and the rows being read stay in the first-level
// cache.
constexpr Index kStrip = 1024;

template <class T>
float mean_of(Index width, const T* __restrict x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < width; ++i) sum += to_float(x[i]);
  return sum / static_cast<float>(width);
}

template <class T>
float variance_of(Index width, float mean, const T* __restrict x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < width; ++i) sum += (to_float(x[i]) - mean) * (to_float(x[i]) - mean);
  return sum / static_cast<float>(width);
}

template <class T>
void backward_row(Index width, float mean, float rstd, const T* __restrict x,
                  const T* __restrict weight, const T* __restrict dy, const T* __restrict residual,
                  T* __restrict dx) {
  float sum = 0;
  float projection = 0;
#pragma omp simd reduction(+ : sum, projection)
  for (Index i = 0; i < width; ++i) {
    const float g = to_float(weight[i]) * to_float(dy[i]);
    sum += g;
    projection += g * ((to_float(x[i]) - mean) * rstd);
  }
  const float offset = sum / static_cast<float>(width);
  const float factor = projection / static_cast<float>(width);
  if (residual == nullptr) {
#pragma omp simd
    for (Index i = 0; i < width; ++i) {
      simd::put(dx + i, rstd * (to_float(weight[i]) * to_float(dy[i]) - offset -
                                (to_float(x[i]) - mean) * rstd * factor));
    }
    return;
  }
#pragma omp simd
  for (Index i = 0; i < width; ++i) {
    simd::put(dx + i, rstd * (to_float(weight[i]) * to_float(dy[i]) - offset -
                              (to_float(x[i]) - mean) * rstd * factor) +
                          to_float(residual[i]));
  }
}

/// Four tokens at once: a fourth of the traffic to the accumulators, and of the additions that each
/// of them strings together.
template <class T>
void add_four_rows(Index columns, Index width, const T* __restrict x,
                   const float* __restrict statistics, const T* __restrict dy,
                   float* __restrict weight_sum, float* __restrict bias_sum) {
#pragma omp simd
  for (Index i = 0; i < columns; ++i) {
    const float g0 = to_float(dy[i]);
    const float g1 = to_float(dy[width + i]);
    const float g2 = to_float(dy[2 * width + i]);
    const float g3 = to_float(dy[3 * width + i]);
    const float n0 = (to_float(x[i]) - statistics[0]) * statistics[1];
    const float n1 = (to_float(x[width + i]) - statistics[2]) * statistics[3];
    const float n2 = (to_float(x[2 * width + i]) - statistics[4]) * statistics[5];
    const float n3 = (to_float(x[3 * width + i]) - statistics[6]) * statistics[7];
    bias_sum[i] += (g0 + g1) + (g2 + g3);
    weight_sum[i] += (g0 * n0 + g1 * n1) + (g2 * n2 + g3 * n3);
  }
}

template <class T>
void add_row(Index columns, const T* __restrict x, const float* __restrict statistics,
             const T* __restrict dy, float* __restrict weight_sum, float* __restrict bias_sum) {
#pragma omp simd
  for (Index i = 0; i < columns; ++i) {
    bias_sum[i] += to_float(dy[i]);
    weight_sum[i] += to_float(dy[i]) * ((to_float(x[i]) - statistics[0]) * statistics[1]);
  }
}

template <class G>
void put_sums(Index columns, bool accumulate, const float* __restrict sum, G* __restrict out) {
#pragma omp simd
  for (Index i = 0; i < columns; ++i)
    simd::put(out + i, accumulate ? to_float(out[i]) + sum[i] : sum[i]);
}

}  // namespace

template <simd::Isa, class T>
void layernorm_forward_cpu(Index tokens, Index width, const T* x, const T* __restrict weight,
                           const T* __restrict bias, T* y, float* statistics) {
  for (Index t = 0; t < tokens; ++t) {
    const T* __restrict in = x + t * width;
    T* __restrict out = y + t * width;
    const float mean = mean_of(width, in);
    const float rstd = 1.0F / __builtin_sqrtf(variance_of(width, mean, in) + kLayerNormEpsilon);
#pragma omp simd
    for (Index i = 0; i < width; ++i)
      simd::put(out + i, (to_float(in[i]) - mean) * rstd * to_float(weight[i]) + to_float(bias[i]));
    statistics[2 * t] = mean;
    statistics[2 * t + 1] = rstd;
  }
}

template <simd::Isa, class T>
void layernorm_backward_cpu(Index tokens, Index width, const T* x, const T* weight,
                            const float* statistics, const T* dy,
                            const std::type_identity_t<T>* residual, T* dx) {
  for (Index t = 0; t < tokens; ++t) {
    const Index row = t * width;
    backward_row(width, statistics[2 * t], statistics[2 * t + 1], x + row, weight, dy + row,
                 residual == nullptr ? nullptr : residual + row, dx + row);
  }
}

template <simd::Isa, class T, class G>
void layernorm_backward_weight_cpu(Index tokens, Index width, const T* x, const float* statistics,
                                   const T* dy, bool accumulate, G* dweight, G* dbias) {
  for (Index first = 0; first < width; first += kStrip) {
    const Index columns = width - first < kStrip ? width - first : kStrip;
    float weight_sum[kStrip] = {};
    float bias_sum[kStrip] = {};
    Index t = 0;
    for (; t + 4 <= tokens; t += 4) {
      const Index at = t * width + first;
      add_four_rows(columns, width, x + at, statistics + 2 * t, dy + at, weight_sum, bias_sum);
    }
    for (; t < tokens; ++t) {
      const Index at = t * width + first;
      add_row(columns, x + at, statistics + 2 * t, dy + at, weight_sum, bias_sum);
    }
    put_sums(columns, accumulate, weight_sum, dweight + first);
    put_sums(columns, accumulate, bias_sum, dbias + first);
  }
}

template void layernorm_forward_cpu<kIsa>(Index, Index, const float*, const float*, const float*,
                                          float*, float*);
template void layernorm_forward_cpu<kIsa>(Index, Index, const BF16*, const BF16*, const BF16*,
                                          BF16*, float*);
template void layernorm_backward_cpu<kIsa>(Index, Index, const float*, const float*, const float*,
                                           const float*, const float*, float*);
template void layernorm_backward_cpu<kIsa>(Index, Index, const BF16*, const BF16*, const float*,
                                           const BF16*, const BF16*, BF16*);
template void layernorm_backward_weight_cpu<kIsa>(Index, Index, const float*, const float*,
                                                  const float*, bool, float*, float*);
template void layernorm_backward_weight_cpu<kIsa>(Index, Index, const BF16*, const float*,
                                                  const BF16*, bool, float*, float*);
template void layernorm_backward_weight_cpu<kIsa>(Index, Index, const BF16*, const float*,
                                                  const BF16*, bool, BF16*, BF16*);

}  // namespace dos::codelets

// SPDX-License-Identifier: Apache-2.0
#include "codelets/layernorm/layernorm.hpp"

namespace dos::codelets {
namespace {

constexpr simd::Isa kIsa = simd::Isa::DOS_ISA;
// Columns summed at a time: both accumulators and the rows being read stay in the first-level
// cache.
constexpr Index kStrip = 1024;

float mean_of(Index width, const float* __restrict x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < width; ++i) sum += x[i];
  return sum / static_cast<float>(width);
}

float variance_of(Index width, float mean, const float* __restrict x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < width; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum / static_cast<float>(width);
}

void backward_row(Index width, float mean, float rstd, const float* __restrict x,
                  const float* __restrict weight, const float* __restrict dy,
                  const float* __restrict residual, float* __restrict dx) {
  float sum = 0;
  float projection = 0;
#pragma omp simd reduction(+ : sum, projection)
  for (Index i = 0; i < width; ++i) {
    const float g = weight[i] * dy[i];
    sum += g;
    projection += g * ((x[i] - mean) * rstd);
  }
  const float offset = sum / static_cast<float>(width);
  const float factor = projection / static_cast<float>(width);
  if (residual == nullptr) {
#pragma omp simd
    for (Index i = 0; i < width; ++i) {
      dx[i] = rstd * (weight[i] * dy[i] - offset - (x[i] - mean) * rstd * factor);
    }
    return;
  }
#pragma omp simd
  for (Index i = 0; i < width; ++i) {
    dx[i] = rstd * (weight[i] * dy[i] - offset - (x[i] - mean) * rstd * factor) + residual[i];
  }
}

/// Four tokens at once: a fourth of the traffic to the accumulators, and of the additions that each
/// of them strings together.
void add_four_rows(Index columns, Index width, const float* __restrict x,
                   const float* __restrict statistics, const float* __restrict dy,
                   float* __restrict weight_sum, float* __restrict bias_sum) {
#pragma omp simd
  for (Index i = 0; i < columns; ++i) {
    const float g0 = dy[i];
    const float g1 = dy[width + i];
    const float g2 = dy[2 * width + i];
    const float g3 = dy[3 * width + i];
    const float n0 = (x[i] - statistics[0]) * statistics[1];
    const float n1 = (x[width + i] - statistics[2]) * statistics[3];
    const float n2 = (x[2 * width + i] - statistics[4]) * statistics[5];
    const float n3 = (x[3 * width + i] - statistics[6]) * statistics[7];
    bias_sum[i] += (g0 + g1) + (g2 + g3);
    weight_sum[i] += (g0 * n0 + g1 * n1) + (g2 * n2 + g3 * n3);
  }
}

void add_row(Index columns, const float* __restrict x, const float* __restrict statistics,
             const float* __restrict dy, float* __restrict weight_sum, float* __restrict bias_sum) {
#pragma omp simd
  for (Index i = 0; i < columns; ++i) {
    bias_sum[i] += dy[i];
    weight_sum[i] += dy[i] * ((x[i] - statistics[0]) * statistics[1]);
  }
}

void store(Index columns, bool accumulate, const float* __restrict sum, float* __restrict out) {
#pragma omp simd
  for (Index i = 0; i < columns; ++i) out[i] = accumulate ? out[i] + sum[i] : sum[i];
}

}  // namespace

template <>
void layernorm_forward_cpu<kIsa>(Index tokens, Index width, const float* x,
                                 const float* __restrict weight, const float* __restrict bias,
                                 float* y, float* statistics) {
  for (Index t = 0; t < tokens; ++t) {
    const float* __restrict in = x + t * width;
    float* __restrict out = y + t * width;
    const float mean = mean_of(width, in);
    const float rstd = 1.0F / __builtin_sqrtf(variance_of(width, mean, in) + kLayerNormEpsilon);
#pragma omp simd
    for (Index i = 0; i < width; ++i) out[i] = (in[i] - mean) * rstd * weight[i] + bias[i];
    statistics[2 * t] = mean;
    statistics[2 * t + 1] = rstd;
  }
}

template <>
void layernorm_backward_cpu<kIsa>(Index tokens, Index width, const float* x, const float* weight,
                                  const float* statistics, const float* dy, const float* residual,
                                  float* dx) {
  for (Index t = 0; t < tokens; ++t) {
    const Index row = t * width;
    backward_row(width, statistics[2 * t], statistics[2 * t + 1], x + row, weight, dy + row,
                 residual == nullptr ? nullptr : residual + row, dx + row);
  }
}

template <>
void layernorm_backward_weight_cpu<kIsa>(Index tokens, Index width, const float* x,
                                         const float* statistics, const float* dy, bool accumulate,
                                         float* dweight, float* dbias) {
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
    store(columns, accumulate, weight_sum, dweight + first);
    store(columns, accumulate, bias_sum, dbias + first);
  }
}

}  // namespace dos::codelets
